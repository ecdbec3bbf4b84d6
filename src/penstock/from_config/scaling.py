"""The rules of the autoscaler, made from the configuration. The simulator (`cli/sim_autoscale.py`) and the
autoscaler over a bus (`cluster/autoscaler.py`) call this, so that both mean the same by a setting."""

from penstock.config import Autoscaler
from penstock.core.scaling.seen import ScalingRules


def scaling_rules(settings: Autoscaler) -> ScalingRules:
    """Returns what the scaler of `core` goes by."""
    return ScalingRules(
        least=settings.minimum,
        most=settings.maximum,
        rules=settings.rules,
        target=settings.target,
        drain=settings.drain,
        fast=settings.fast,
        slow=settings.slow,
        cool_down=settings.cool_down,
        at_once=settings.at_once,
        idle=settings.idle,
        start=settings.start,
    )
