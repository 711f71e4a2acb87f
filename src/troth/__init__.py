"""Troth pays for data so that telling the truth pays best.

A model is two functions, ``statistics`` and ``log_evidence``. The second difference of ``log_evidence`` is how much a
provider's data and its peers' data say about each other; payments are computed from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from troth import history as history
    from troth import models as models
    from troth.audits import Audit as Audit
    from troth.audits import BestResponse as BestResponse
    from troth.audits import Comparison as Comparison
    from troth.audits import Finding as Finding
    from troth.audits import audit as audit
    from troth.audits import baselines as baselines
    from troth.audits import best_response as best_response
    from troth.audits import compare as compare
    from troth.audits import strategies as strategies
    from troth.campaigns.model_file import load_model as load_model
    from troth.campaigns.model_file import save_model as save_model
    from troth.campaigns.records.ledger import LedgerError as LedgerError
    from troth.campaigns.seed import Secret as Secret
    from troth.campaigns.terms import Campaign as Campaign
    from troth.certificates import Certificate as Certificate
    from troth.certificates import Claim as Claim
    from troth.certificates import Fit as Fit
    from troth.certificates import NearDuplicates as NearDuplicates
    from troth.certificates import certify as certify
    from troth.certificates import check_fit as check_fit
    from troth.certificates import find_near_duplicates as find_near_duplicates
    from troth.core.contract import Model as Model
    from troth.core.errors import DataError as DataError
    from troth.core.errors import IncompatibleModelsError as IncompatibleModelsError
    from troth.core.errors import LawBrokenError as LawBrokenError
    from troth.core.errors import MissingCapabilityError as MissingCapabilityError
    from troth.core.errors import ParameterError as ParameterError
    from troth.core.errors import ScoreOutOfRangeError as ScoreOutOfRangeError
    from troth.core.errors import TrothError as TrothError
    from troth.core.errors import UnboundedRangeError as UnboundedRangeError
    from troth.core.errors import UnpayableRoundError as UnpayableRoundError
    from troth.core.information import Information as Information
    from troth.core.information import leave_one_out as leave_one_out
    from troth.core.information import log_pmi as log_pmi
    from troth.core.information import mutual_information as mutual_information
    from troth.core.information import peer_log_pmi as peer_log_pmi
    from troth.core.laws import check_model as check_model
    from troth.core.posterior import posterior as posterior
    from troth.core.provider_models import combine as combine
    from troth.core.settings import CampaignError as CampaignError
    from troth.core.support import Support as Support
    from troth.history import Backtest as Backtest
    from troth.history import History as History
    from troth.history import ModelComparison as ModelComparison
    from troth.history import backtest as backtest
    from troth.history import compare_models as compare_models
    from troth.history.learn import fit as fit
    from troth.mechanisms import Bonded as Bonded
    from troth.mechanisms import Breakdown as Breakdown
    from troth.mechanisms import Brier as Brier
    from troth.mechanisms import LineUp as LineUp
    from troth.mechanisms import LogPmiRule as LogPmiRule
    from troth.mechanisms import MultiDay as MultiDay
    from troth.mechanisms import OneTime as OneTime
    from troth.mechanisms import Round as Round
    from troth.mechanisms import Rule as Rule
    from troth.mechanisms import ScoreRange as ScoreRange
    from troth.mechanisms import SyntheticPeers as SyntheticPeers
    from troth.mechanisms import UnequalSizesError as UnequalSizesError
    from troth.mechanisms import clipped_range as clipped_range
    from troth.mechanisms import divergences as divergences
    from troth.mechanisms import exact_range as exact_range
    from troth.mechanisms import group_weights as group_weights
    from troth.mechanisms import paper_range as paper_range
    from troth.results.pay import pay as pay
    from troth.results.pay import verify as verify
    from troth.results.result import Result as Result

# A module is imported when one of its names is first used, so that `import troth` is fast.
_NAMES_BY_MODULE = {
    "troth.audits": "Audit BestResponse Comparison Finding audit baselines best_response compare strategies",
    "troth.campaigns.records.ledger": "LedgerError",
    "troth.campaigns.model_file": "load_model save_model",
    "troth.campaigns.seed": "Secret",
    "troth.campaigns.terms": "Campaign",
    "troth.certificates": "Certificate Claim Fit NearDuplicates certify check_fit find_near_duplicates",
    "troth.core.contract": "Model",
    "troth.core.errors": "DataError IncompatibleModelsError LawBrokenError MissingCapabilityError ParameterError "
    "ScoreOutOfRangeError TrothError UnboundedRangeError UnpayableRoundError",
    "troth.core.information": "Information leave_one_out log_pmi mutual_information peer_log_pmi",
    "troth.core.laws": "check_model",
    "troth.core.posterior": "posterior",
    "troth.core.provider_models": "combine",
    "troth.core.settings": "CampaignError",
    "troth.core.support": "Support",
    "troth.history": "Backtest History ModelComparison backtest compare_models",
    "troth.history.learn": "fit",
    "troth.mechanisms": "Bonded Breakdown Brier LineUp LogPmiRule MultiDay OneTime Round Rule ScoreRange "
    "SyntheticPeers UnequalSizesError clipped_range divergences exact_range group_weights paper_range",
    "troth.results.pay": "pay verify",
    "troth.results.result": "Result",
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
_SUBMODULES = ("history", "models")

__all__ = [*_MODULE_BY_NAME, *_SUBMODULES, "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"troth.{name}")
    if name in _MODULE_BY_NAME:
        return getattr(import_module(_MODULE_BY_NAME[name]), name)
    raise AttributeError(f"module 'troth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
