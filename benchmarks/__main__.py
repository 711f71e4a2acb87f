"""Run every benchmark, or those named: ``python -m benchmarks core rules``."""

from __future__ import annotations

import sys

from benchmarks import (
    audits,
    campaigns,
    core,
    digits,
    griefing,
    history,
    incentives,
    labelled_rows,
    labelled_speed,
    line_up,
    line_up_options,
    providers_that_differ,
    pydvl_comparison,
    rules,
    service,
    service_load,
    tasks,
    values_that_differ,
    verdicts,
)

BENCHMARKS = {
    "core": core.main,
    "rules": rules.main,
    "line_up": line_up.main,
    "line_up_options": line_up_options.main,
    "audits": audits.main,
    "campaigns": campaigns.main,
    "history": history.main,
    "incentives": incentives.main,
    "griefing": griefing.main,
    "labelled_rows": labelled_rows.main,
    "labelled_speed": labelled_speed.main,
    "providers_that_differ": providers_that_differ.main,
    "values_that_differ": values_that_differ.main,
    "verdicts": verdicts.main,
    "tasks": tasks.main,
    "service": service.main,
    "service_load": service_load.main,
    "pydvl": pydvl_comparison.main,
    "digits": digits.main,
}

if __name__ == "__main__":  # the processes of the comparison with pyDVL import this file too
    for number, name in enumerate([name for name in sys.argv[1:] if not name.startswith("-")] or BENCHMARKS):
        if number:
            print()
        BENCHMARKS[name]()
