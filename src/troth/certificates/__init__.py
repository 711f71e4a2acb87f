"""Certificates: what is proved, refuted or undecided about a campaign."""

from troth.certificates.claims import Certificate, certify
from troth.certificates.fit import Fit, check_fit
from troth.certificates.similarity import NearDuplicates, find_near_duplicates
from troth.core.claims import Claim

__all__ = ["Certificate", "Claim", "Fit", "NearDuplicates", "certify", "check_fit", "find_near_duplicates"]
