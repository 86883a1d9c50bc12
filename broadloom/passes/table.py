"""`PASSES`: every pass by its name, and the pipeline that compilation runs."""

from __future__ import annotations

from broadloom.graph.manager import Pass, Pipeline, parse_pipeline
from broadloom.passes.cheaper_arithmetic import CheaperArithmetic
from broadloom.passes.common_subexpressions import CommonSubexpressions
from broadloom.passes.contract_multiply_add import ContractMultiplyAdd
from broadloom.passes.dead_code import DeadCode
from broadloom.passes.decompose import Decompose
from broadloom.passes.fold_constants import FoldConstants
from broadloom.passes.remove_no_ops import RemoveNoOps
from broadloom.passes.small_reductions import SmallReductions

PASSES: dict[str, type[Pass]] = {
    p.name: p
    for p in (
        CheaperArithmetic,
        CommonSubexpressions,
        ContractMultiplyAdd,
        DeadCode,
        Decompose,
        FoldConstants,
        RemoveNoOps,
        SmallReductions,
    )
}

# Views that writes leave behind go first; what decomposition makes is cleaned up by the second round.
DEFAULT = (
    "dead-code,remove-no-ops,fold-constants,decompose,remove-no-ops,fold-constants,small-reductions,cheaper-arithmetic,"
    "common-subexpressions,dead-code"
)


def default_pipeline() -> Pipeline:
    """The passes of an ordinary compilation.

    >>> str(default_pipeline()) == DEFAULT
    True
    """
    return parse_pipeline(DEFAULT, PASSES)


def contracting(pipeline: Pipeline) -> Pipeline:
    """The pipeline with fused multiply-adds placed at its end, and the products that they leave behind removed.

    >>> str(contracting(Pipeline((DeadCode(),))))
    'dead-code,contract-multiply-add,dead-code'
    """
    return Pipeline((*pipeline.passes, ContractMultiplyAdd(), DeadCode()))
