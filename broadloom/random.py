"""Keyed random numbers: `bl.random`.

What goes in: a key, the parameters of a distribution as in `numpy.random.Generator`, a size. What comes out: a fresh
array. What holds: a function here is pure. Its numbers depend on the key, the parameters and the position of each
element alone, and have the same bits eagerly, compiled, for each example under `bl.vmap`, in vectors of any length, on
any number of threads and on every machine. So a key serves one call; `split` and `fold_in` make others of it.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11).
Element number i, in C order, takes the 128 bits that the key gives for a counter of its own. docs/random.md describes
streams and guarantees.

Common to the distributions: parameters broadcast; `size` is the shape of the result, by default the one that the
parameters broadcast to. Numbers are computed in float64 and rounded once to `dtype`: float64 (the default), float32,
float16 or bfloat16; counts to int64 (the default) or another integer dtype. A parameter outside its domain raises
`ShapeError`, which is a `ValueError`, if it is a number; in an array it gives nan, or the least integer for a count.

>>> k = key(7)
>>> first, second = split(k)
>>> normal(first, size=3)
Tensor([ 1.01425209, -0.10085953,  0.27784276])
>>> integers(second, 1, 6, size=5, endpoint=True)
Tensor([1, 2, 6, 2, 6])
"""

from __future__ import annotations

from typing import Any

from broadloom.frontend import random as entries
from broadloom.frontend import random_choices as choices
from broadloom.frontend import random_vectors as vectors
from broadloom.tensor.dispatch import call

# ---- keys ------------------------------------------------------------------------------------------------------------


def key(seed: Any) -> Any:
    """The key of a seed: an array uint32[2] that holds the 64 bits of an integer. Different seeds give unrelated
    numbers. A Python int lies between -2**63 and 2**64 - 1; an array of integers gives as many keys."""
    return call(entries.key, seed)


def split(key: Any, n: Any = 2) -> Any:
    """`n` new keys, uint32[n, 2]; a tuple of sizes gives more axes. They are unrelated to each other, to the numbers
    that `key` itself gives and to what `fold_in` makes of it; two are equal with a chance of 2**-64."""
    return call(entries.split, key, n)


def fold_in(key: Any, data: Any) -> Any:
    """The key for number `data`, an integer, of a sequence: of a step, a layer, a worker. An array of integers gives as
    many keys."""
    return call(entries.fold_in, key, data)


# ---- bits and uniform numbers ----------------------------------------------------------------------------------------


def bits(key: Any, size: Any = None, dtype: Any = None) -> Any:
    """Random bits as integers of an unsigned dtype, uint64 if none is given."""
    return call(entries.bits, key, size, dtype)


def random(key: Any, size: Any = None, dtype: Any = None) -> Any:
    """Uniform in [0, 1): multiples of 2**-53, of 2**-24 in float32, 2**-11 in float16 and 2**-8 in bfloat16."""
    return call(entries.random, key, size, dtype)


def uniform(key: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """low + (high - low)*u, u uniform in [0, 1). Rounding may give `high`."""
    return call(entries.uniform, key, low, high, size, dtype)


def bernoulli(key: Any, p: Any = 0.5, size: Any = None) -> Any:
    """True with a chance of p, exact to 2**-53; False where p in an array is not within [0, 1]."""
    return call(entries.bernoulli, key, p, size)


def integers(key: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = None, endpoint: bool = False) -> Any:
    """Integers from `low` up to `high`, which is left out unless `endpoint`; below `low` if `high` is not given.

    floor(x*n/2**128) with the 128 bits x of an element and the number n of integers: no integer is more likely than
    another by more than a part in 2**128/n, which is at most 2**-64. Where arrays leave no integer, `low` is given.
    """
    return call(entries.integers, key, low, high, size, dtype, endpoint)


# ---- normal numbers and what is made of them -------------------------------------------------------------------------


def standard_normal(key: Any, size: Any = None, dtype: Any = None) -> Any:
    """Normal with mean 0 and deviation 1: sqrt(-2*log(u))*cos(2*pi*v) (Box and Muller, 1958), u of 64 bits, so that the
    tails reach 9.4 deviations."""
    return call(entries.standard_normal, key, size, dtype)


def normal(key: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Normal with mean `loc` and deviation `scale`, 0 or more."""
    return call(entries.normal, key, loc, scale, size, dtype)


def lognormal(key: Any, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """e to a normal number of mean `mean` and deviation `sigma`, 0 or more."""
    return call(entries.lognormal, key, mean, sigma, size, dtype)


def wald(key: Any, mean: Any, scale: Any, size: Any = None, dtype: Any = None) -> Any:
    """Inverse Gaussian; mean and scale more than 0. Michael, Schucany, Haas, "Generating random variates using
    transformations with multiple roots" (1976), the roots without cancellation."""
    return call(entries.wald, key, mean, scale, size, dtype)


# ---- exponential numbers and what is made of them --------------------------------------------------------------------


def standard_exponential(key: Any, size: Any = None, dtype: Any = None) -> Any:
    """Exponential with mean 1: -log(u), u of 64 bits, so that the tail reaches 45."""
    return call(entries.standard_exponential, key, size, dtype)


def exponential(key: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Exponential with mean `scale`, 0 or more."""
    return call(entries.exponential, key, scale, size, dtype)


def laplace(key: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Laplace around `loc`: an exponential number of mean `scale`, 0 or more, with a random sign."""
    return call(entries.laplace, key, loc, scale, size, dtype)


def logistic(key: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Logistic around `loc`, scale 0 or more: log(v/(1 - v)) for v up to 1/2, with a random sign."""
    return call(entries.logistic, key, loc, scale, size, dtype)


def gumbel(key: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Gumbel: loc - scale*log(e), e exponential, scale 0 or more."""
    return call(entries.gumbel, key, loc, scale, size, dtype)


def standard_cauchy(key: Any, size: Any = None, dtype: Any = None) -> Any:
    """Cauchy: the cotangent of a uniform angle up to pi/2, with a random sign."""
    return call(entries.standard_cauchy, key, size, dtype)


def rayleigh(key: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Rayleigh: scale*sqrt(2*e), e exponential, scale 0 or more."""
    return call(entries.rayleigh, key, scale, size, dtype)


def weibull(key: Any, a: Any, size: Any = None, dtype: Any = None) -> Any:
    """Weibull of shape a, 0 or more: e**(1/a), e exponential; 0 where a is 0."""
    return call(entries.weibull, key, a, size, dtype)


def pareto(key: Any, a: Any, size: Any = None, dtype: Any = None) -> Any:
    """Pareto II (Lomax) of shape a, more than 0: exp(e/a) - 1, e exponential."""
    return call(entries.pareto, key, a, size, dtype)


def power(key: Any, a: Any, size: Any = None, dtype: Any = None) -> Any:
    """Density a*x**(a - 1) on [0, 1], a more than 0: u**(1/a)."""
    return call(entries.power, key, a, size, dtype)


def triangular(key: Any, left: Any, mode: Any, right: Any, size: Any = None, dtype: Any = None) -> Any:
    """Triangular on [left, right] with its peak at mode, by the inverse of the distribution function."""
    return call(entries.triangular, key, left, mode, right, size, dtype)


# ---- gamma numbers and what is made of them --------------------------------------------------------------------------


def standard_gamma(key: Any, shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """Gamma of scale 1, shape 0 or more. Marsaglia and Tsang, "A simple method for generating gamma variables" (2000);
    shapes below 1 by a number of shape + 1, times u**(1/shape).

    Each trial has counters of its own. An element tries until it is accepted, with a chance of at least 0.95 each time,
    so the distribution is that of the method; at most 200 times, of which no element ever makes use.
    """
    return call(entries.standard_gamma, key, shape, size, dtype)


def gamma(key: Any, shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Gamma, shape and scale 0 or more; see `standard_gamma`."""
    return call(entries.gamma, key, shape, scale, size, dtype)


def chisquare(key: Any, df: Any, size: Any = None, dtype: Any = None) -> Any:
    """Chi-square with df degrees of freedom, more than 0: twice a gamma number of shape df/2."""
    return call(entries.chisquare, key, df, size, dtype)


def noncentral_chisquare(key: Any, df: Any, nonc: Any, size: Any = None, dtype: Any = None) -> Any:
    """Chi-square with df degrees of freedom, more than 0, and 2*n more, n Poisson of mean nonc/2, 0 or more."""
    return call(entries.noncentral_chisquare, key, df, nonc, size, dtype)


def noncentral_f(key: Any, dfnum: Any, dfden: Any, nonc: Any, size: Any = None, dtype: Any = None) -> Any:
    """Fisher's F whose numerator is `noncentral_chisquare` with dfnum and nonc."""
    return call(entries.noncentral_f, key, dfnum, dfden, nonc, size, dtype)


def f(key: Any, dfnum: Any, dfden: Any, size: Any = None, dtype: Any = None) -> Any:
    """Fisher's F with dfnum and dfden degrees of freedom, more than 0: a ratio of two gamma numbers."""
    return call(entries.f, key, dfnum, dfden, size, dtype)


def standard_t(key: Any, df: Any, size: Any = None, dtype: Any = None) -> Any:
    """Student's t with df degrees of freedom, more than 0: a normal number over the root of a gamma number."""
    return call(entries.standard_t, key, df, size, dtype)


def beta(key: Any, a: Any, b: Any, size: Any = None, dtype: Any = None) -> Any:
    """Beta, a and b more than 0: x/(x + y) of gamma numbers of shapes a and b, by their logarithms, as both may be too
    small for a float."""
    return call(entries.beta, key, a, b, size, dtype)


def dirichlet(key: Any, alpha: Any, size: Any = None, dtype: Any = None) -> Any:
    """Dirichlet: gamma numbers of the shapes `alpha`, which has one axis, over their sum, by their logarithms. The
    result has the shape size + (len(alpha),)."""
    return call(vectors.dirichlet, key, alpha, size, dtype)


def vonmises(key: Any, mu: Any, kappa: Any, size: Any = None, dtype: Any = None) -> Any:
    """Angles in [-pi, pi] around mu with concentration kappa, 0 or more: Best and Fisher, "Efficient simulation of the
    von Mises distribution" (1979); normal from kappa = 2**40 on."""
    return call(entries.vonmises, key, mu, kappa, size, dtype)


# ---- counts ----------------------------------------------------------------------------------------------------------


def poisson(key: Any, lam: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    """Poisson of mean `lam`, 0 or more. Below 10 by inversion of one uniform number of 53 bits, from there on by PTRS
    of Hörmann, "The transformed rejection method for generating Poisson random variables" (1993)."""
    return call(entries.poisson, key, lam, size, dtype)


def binomial(key: Any, n: Any, p: Any, size: Any = None, dtype: Any = None) -> Any:
    """How many of n trials, 0 or more, succeed with a chance of p each. By inversion where the mean of the rarer
    outcome is below 10, else by BTRS of Hörmann, "The generation of binomial random variates" (1993)."""
    return call(entries.binomial, key, n, p, size, dtype)


def negative_binomial(key: Any, n: Any, p: Any, size: Any = None, dtype: Any = None) -> Any:
    """Failures before n successes, n more than 0, of chance p, more than 0: Poisson with a gamma number as its mean."""
    return call(entries.negative_binomial, key, n, p, size, dtype)


def geometric(key: Any, p: Any, size: Any = None, dtype: Any = None) -> Any:
    """Trials up to the first success, of chance p, more than 0: 1 + floor(log(u)/log(1 - p)), at most 2**63 - 1024."""
    return call(entries.geometric, key, p, size, dtype)


def zipf(key: Any, a: Any, size: Any = None, dtype: Any = None) -> Any:
    """Zipf of exponent a, more than 1, on 1, ..., 2**63 - 1024: rejection (Devroye, "Non-uniform random variate
    generation", 1986, chapter X)."""
    return call(entries.zipf, key, a, size, dtype)


def logseries(key: Any, p: Any, size: Any = None, dtype: Any = None) -> Any:
    """Logarithmic series of p, 0 or more and less than 1, by Kemp's LK, "Efficient generation of logarithmically
    distributed pseudo-random variables" (1981)."""
    return call(entries.logseries, key, p, size, dtype)


def multinomial(key: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """How often each category occurs in n trials: binomial numbers one after the other. The last axis of `pvals` holds
    the chances, of which the last is taken for what is left; at most 1000 of them."""
    return call(vectors.multinomial, key, n, pvals, size)


def multivariate_normal(key: Any, mean: Any, cov: Any, size: Any = None, dtype: Any = None) -> Any:
    """Normal vectors of a mean, shape (n,), and a covariance, (n, n), by its Cholesky factor; the result has the shape
    size + (n,). Raises `numpy.linalg.LinAlgError` for a covariance that is not positive definite.

    The factor and the product are linear algebra: their last bits may differ between eager and compiled.
    """
    return call(vectors.multivariate_normal, key, mean, cov, size, dtype)


# ---- choices ---------------------------------------------------------------------------------------------------------


def choice(
    key: Any, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
) -> Any:
    """Elements of `a` along `axis`, or of 0, ..., a - 1 if it is an int; `p` has the chance of each, up to a factor.

    With replacement by `integers`, or by the sums of the chances. Without, the first elements of a random order; with
    chances that of exponential numbers over the chances, which is the order of drawing one by one (Efraimidis and
    Spirakis, 2006). The result is in random order whether or not `shuffle` asks for it.
    """
    return call(choices.choice, key, a, size, replace, p, axis, shuffle)


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The slices of `x` along `axis` in a random order; those of 0, ..., x - 1 if it is an int. The order is that of
    random words of 64 bits: with n elements no order is more likely than another by more than a part in 2**65/n**2."""
    return call(choices.permutation, key, x, axis)


def permuted(key: Any, x: Any, axis: int | None = None) -> Any:
    """The elements of `x` in a random order: all of them, or along `axis`, each line in an order of its own."""
    return call(choices.permuted, key, x, axis)
