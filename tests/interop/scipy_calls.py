"""Calls of SciPy with tensors, by module; imported only with SCIPY_ARRAY_API=1 in the environment."""

from __future__ import annotations

from scipy import (
    cluster,
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    spatial,
    special,
    stats,
)
from scipy.optimize import elementwise
from scipy.spatial import transform

from tests.interop.calls import Calls, called, lookup, matrix, positive, square, times, vector

assert optimize

GIVES_TENSORS: dict[str, Calls] = {
    "scipy.special": {
        **lookup(special, "erf erfc gammaln expit ndtr i0 entr", positive),
        **lookup(special, "logsumexp softmax log_softmax", matrix, axis=0),
        "logit": called(special.logit, positive / 10),
        "xlogy": called(special.xlogy, positive, positive),
        "betainc": called(lambda x: special.betainc(x, x, x / 10), positive),
    },
    "scipy.stats": {
        **lookup(stats, "skew kurtosis variation gmean hmean sem zscore entropy iqr circmean moment kstat", positive),
        **lookup(stats, "rankdata median_abs_deviation gstd mode chisquare", positive),
        **lookup(stats, "wilcoxon jarque_bera normaltest skewtest differential_entropy", vector),
        **lookup(stats, "pearsonr spearmanr ttest_ind ttest_rel mannwhitneyu f_oneway kruskal", vector, positive),
        **lookup(stats, "bartlett levene", vector, positive),
        "ttest_1samp": called(lambda x: stats.ttest_1samp(x, 0.0), vector),
        "ks_1samp": called(lambda x: stats.ks_1samp(x, special.ndtr), vector),
        "cramervonmises": called(lambda x: stats.cramervonmises(x, special.ndtr), vector),
        "combine_pvalues": called(stats.combine_pvalues, positive / 10),
        "pmean": called(lambda x: stats.pmean(x, 2), positive),
        "boxcox_llf": called(lambda x: stats.boxcox_llf(0.5, x), positive),
        "directional_stats": called(lambda x: stats.directional_stats(x).mean_direction, matrix),
    },
    "scipy.fft": lookup(fft, "fft ifft rfft irfft hfft fft2 fftn dct dst fftshift", matrix),
    "scipy.signal": {
        **lookup(signal, "convolve fftconvolve correlate", vector, positive),
        **lookup(signal, "detrend hilbert medfilt", vector),
        "savgol_filter": called(lambda x: signal.savgol_filter(x, 5, 2), vector),
        "lfilter": called(signal.lfilter, positive[:3], positive[:2], vector),
        "resample": called(lambda x: signal.resample(x, 20), vector),
        "sosfilt": called(signal.sosfilt, signal.butter(2, 0.3, output="sos"), vector),
    },
    "scipy.integrate": {
        **lookup(integrate, "trapezoid cumulative_trapezoid cumulative_simpson", vector),
        "tanhsinh": called(lambda a, b: integrate.tanhsinh(lambda x: x**2, a, b).integral, positive, positive + 1),
    },
    "scipy.cluster": {
        "vq.whiten": called(cluster.vq.whiten, matrix),
        "vq.vq": called(cluster.vq.vq, matrix, matrix[:3]),
        "vq.kmeans": called(lambda x: cluster.vq.kmeans(x, x[:3, ...]), matrix),
        "hierarchy.linkage": called(cluster.hierarchy.linkage, matrix),
        "hierarchy.fcluster": called(lambda z: cluster.hierarchy.fcluster(z, t=2.0), cluster.hierarchy.linkage(matrix)),
    },
    "scipy.ndimage": {
        "gaussian_filter": called(lambda x: ndimage.gaussian_filter(x, 1.0), matrix),
        "median_filter": called(lambda x: ndimage.median_filter(x, 3), matrix),
        "sobel": called(ndimage.sobel, matrix),
        "zoom": called(lambda x: ndimage.zoom(x, 2), matrix),
        "label": called(lambda x: ndimage.label(x > 0)[0], matrix),
    },
    "scipy.optimize.elementwise": {
        "find_root": called(lambda a, b: elementwise.find_root(lambda x: x**2 - 1.7, (a, b)).x, times[:1], times[2:5]),
        "find_minimum": called(
            lambda a: elementwise.find_minimum(lambda x: (x - 0.7) ** 2, (a - 1, a, a + 1)).x, positive[:3] * 0 + 0.5
        ),
    },
    "scipy.differentiate": {"derivative": called(lambda x: differentiate.derivative(lambda t: t**3, x).df, vector)},
    "scipy.constants": {
        "convert_temperature": called(lambda x: constants.convert_temperature(x, "Celsius", "Kelvin"), vector)
    },
    "scipy.spatial": {
        "distance.pdist": called(spatial.distance.pdist, matrix),
        "transform.Rotation": called(lambda x: transform.Rotation.from_rotvec(x).as_matrix(), matrix[:, :3]),
    },
    "scipy.interpolate": {
        "CubicSpline": called(lambda x, y, t: interpolate.CubicSpline(x, y)(t), times, matrix, vector[:3] * 0 + 1.5),
        "PchipInterpolator": called(
            lambda x, y, t: interpolate.PchipInterpolator(x, y)(t), times, matrix, vector[:3] * 0 + 1.5
        ),
        "make_interp_spline": called(
            lambda x, y, t: interpolate.make_interp_spline(x, y)(t), times, matrix, vector[:3] * 0 + 1.5
        ),
    },
}
GIVES_ARRAYS: dict[str, Calls] = {
    "scipy.linalg": {
        **lookup(linalg, "inv det pinv svdvals expm eigvalsh sqrtm norm cholesky qr svd", square),
        "solve": called(linalg.solve, square, square[0]),
        "lstsq": called(lambda a, b: linalg.lstsq(a, b)[0], matrix, matrix[:, 0]),
    },
    "scipy.signal": {
        **lookup(signal, "welch periodogram", vector),
        "find_peaks": called(lambda x: signal.find_peaks(x)[0], vector),
    },
}
