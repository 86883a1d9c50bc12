"""The distributions, each with parameters, its distribution function, and the entry that the frontend has for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy import stats

import broadloom.random as R
from broadloom.frontend import random as entries


@dataclass(frozen=True)
class Case:
    """`name(key, **parameters)` is distributed as `law`; None: compared otherwise."""

    name: str
    parameters: dict[str, Any]
    law: Any = None

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(R, self.name)

    @property
    def entry(self) -> Callable[..., Any]:
        return getattr(entries, self.name)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.parameters.items())})"


CONTINUOUS = [
    Case("random", {}, stats.uniform()),
    Case("uniform", {"low": -1.0, "high": 3.0}, stats.uniform(-1, 4)),
    Case("standard_normal", {}, stats.norm()),
    Case("normal", {"loc": 2.0, "scale": 3.0}, stats.norm(2, 3)),
    Case("lognormal", {"mean": 0.5, "sigma": 0.75}, stats.lognorm(0.75, scale=2.718281828459045**0.5)),
    Case("wald", {"mean": 2.0, "scale": 3.0}, stats.invgauss(2 / 3, scale=3)),
    Case("wald", {"mean": 50.0, "scale": 0.1}, stats.invgauss(500, scale=0.1)),
    Case("standard_exponential", {}, stats.expon()),
    Case("exponential", {"scale": 2.5}, stats.expon(scale=2.5)),
    Case("laplace", {"loc": 1.0, "scale": 2.0}, stats.laplace(1, 2)),
    Case("logistic", {"loc": 1.0, "scale": 2.0}, stats.logistic(1, 2)),
    Case("gumbel", {"loc": 1.0, "scale": 2.0}, stats.gumbel_r(1, 2)),
    Case("standard_cauchy", {}, stats.cauchy()),
    Case("rayleigh", {"scale": 2.0}, stats.rayleigh(scale=2)),
    Case("weibull", {"a": 0.5}, stats.weibull_min(0.5)),
    Case("weibull", {"a": 3.0}, stats.weibull_min(3)),
    Case("pareto", {"a": 2.5}, stats.lomax(2.5)),
    Case("power", {"a": 0.3}, stats.powerlaw(0.3)),
    Case("triangular", {"left": -1.0, "mode": 0.0, "right": 4.0}, stats.triang(0.2, -1, 5)),
    Case("standard_gamma", {"shape": 0.05}, stats.gamma(0.05)),
    Case("standard_gamma", {"shape": 1.0}, stats.gamma(1)),
    Case("gamma", {"shape": 2.5, "scale": 3.0}, stats.gamma(2.5, scale=3)),
    Case("gamma", {"shape": 1e6, "scale": 1.0}, stats.gamma(1e6)),
    Case("chisquare", {"df": 1.0}, stats.chi2(1)),
    Case("chisquare", {"df": 9.0}, stats.chi2(9)),
    Case("noncentral_chisquare", {"df": 3.0, "nonc": 2.0}, stats.ncx2(3, 2)),
    Case("noncentral_chisquare", {"df": 0.5, "nonc": 40.0}, stats.ncx2(0.5, 40)),
    Case("noncentral_f", {"dfnum": 3.0, "dfden": 20.0, "nonc": 2.0}, stats.ncf(3, 20, 2)),
    Case("vonmises", {"mu": 0.0, "kappa": 0.01}, stats.vonmises(0.01)),
    Case("vonmises", {"mu": 0.0, "kappa": 4.0}, stats.vonmises(4)),
    Case("f", {"dfnum": 3.0, "dfden": 7.0}, stats.f(3, 7)),
    Case("standard_t", {"df": 3.0}, stats.t(3)),
    Case("beta", {"a": 0.1, "b": 0.2}, stats.beta(0.1, 0.2)),
    Case("beta", {"a": 3.0, "b": 1.5}, stats.beta(3, 1.5)),
]

COUNTS = [
    Case("integers", {"low": -3, "high": 9}, stats.randint(-3, 9)),
    Case("integers", {"low": 0, "high": 6, "endpoint": True}, stats.randint(0, 7)),
    Case("poisson", {"lam": 0.3}, stats.poisson(0.3)),
    Case("poisson", {"lam": 9.9}, stats.poisson(9.9)),
    Case("poisson", {"lam": 10.0}, stats.poisson(10)),
    Case("poisson", {"lam": 70.5}, stats.poisson(70.5)),
    Case("poisson", {"lam": 1e6}, stats.poisson(1e6)),
    Case("binomial", {"n": 1, "p": 0.25}, stats.binom(1, 0.25)),
    Case("binomial", {"n": 15, "p": 0.6}, stats.binom(15, 0.6)),
    Case("binomial", {"n": 40, "p": 0.5}, stats.binom(40, 0.5)),
    Case("binomial", {"n": 200, "p": 0.9}, stats.binom(200, 0.9)),
    Case("binomial", {"n": 10**8, "p": 0.3}, stats.binom(10**8, 0.3)),
    Case("negative_binomial", {"n": 2.5, "p": 0.2}, stats.nbinom(2.5, 0.2)),
    Case("zipf", {"a": 3.2}, stats.zipf(3.2)),
    Case("logseries", {"p": 0.7}, stats.logser(0.7)),
    Case("geometric", {"p": 0.15}, stats.geom(0.15)),
]

OTHER = [Case("bits", {}), Case("bernoulli", {"p": 0.3})]
ALL = [*CONTINUOUS, *COUNTS, *OTHER]
EACH_ONCE = list({case.name: case for case in ALL}.values())
