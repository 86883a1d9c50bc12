"""Calls of scikit-learn with tensors under `array_api_dispatch`, which needs SCIPY_ARRAY_API=1 in the environment."""

from __future__ import annotations

import sklearn
from sklearn import (
    decomposition,
    discriminant_analysis,
    linear_model,
    metrics,
    mixture,
    model_selection,
    naive_bayes,
    preprocessing,
)
from sklearn.metrics import pairwise
from sklearn.pipeline import make_pipeline

from tests.interop.calls import Calls, called, classes, guesses, labels, lookup, matrix, positive, scores

sklearn.set_config(array_api_dispatch=True)


def _transformed(name: str) -> Calls:
    return {name: called(lambda x: getattr(preprocessing, name)().fit(x).transform(x), matrix)}


GIVES_TENSORS: dict[str, Calls] = {
    "sklearn.preprocessing": {
        **_transformed("StandardScaler"),
        **_transformed("MinMaxScaler"),
        **_transformed("MaxAbsScaler"),
        **_transformed("Normalizer"),
        **_transformed("Binarizer"),
        **_transformed("PolynomialFeatures"),
        "LabelEncoder": called(lambda k: preprocessing.LabelEncoder().fit_transform(k), classes),
        "LabelBinarizer": called(lambda k: preprocessing.LabelBinarizer().fit_transform(k), classes),
    },
    "sklearn.decomposition": {
        "PCA": called(lambda x: decomposition.PCA(2, svd_solver="full").fit_transform(x), matrix),
    },
    "sklearn.linear_model": {
        "Ridge": called(lambda x, t: linear_model.Ridge(solver="svd").fit(x, t).predict(x), matrix, matrix[:, 1]),
        "RidgeClassifier": called(
            lambda x, t: linear_model.RidgeClassifier(solver="svd").fit(x, t).predict(x), matrix, labels
        ),
    },
    "sklearn.discriminant_analysis": {
        "LinearDiscriminantAnalysis": called(
            lambda x, t: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, t).predict_proba(x), matrix, labels
        ),
    },
    "sklearn.naive_bayes": {
        "GaussianNB": called(lambda x, t: naive_bayes.GaussianNB().fit(x, t).predict_proba(x), matrix, labels),
    },
    "sklearn.mixture": {
        "GaussianMixture": called(
            lambda x: mixture.GaussianMixture(2, random_state=0, init_params="random").fit(x).means_, matrix
        ),
    },
    "sklearn.model_selection": {
        "train_test_split": called(lambda x: model_selection.train_test_split(x, random_state=0), matrix),
        "cross_val_predict": called(
            lambda x, t: model_selection.cross_val_predict(linear_model.Ridge(solver="svd"), x, t),
            matrix,
            matrix[:, 1],
        ),
    },
    "sklearn.pipeline": {
        "make_pipeline": called(
            lambda x, t: (
                make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge(solver="svd")).fit(x, t).predict(x)
            ),
            matrix,
            matrix[:, 1],
        ),
    },
    "sklearn.metrics.pairwise": {
        **lookup(pairwise, "cosine_similarity cosine_distances euclidean_distances", matrix, matrix[:5]),
        **lookup(pairwise, "rbf_kernel linear_kernel polynomial_kernel sigmoid_kernel", matrix, matrix[:5]),
        **lookup(pairwise, "laplacian_kernel manhattan_distances", matrix, matrix[:5]),
    },
    "sklearn.metrics": {
        "confusion_matrix": called(metrics.confusion_matrix, labels, guesses),
        "det_curve": called(metrics.det_curve, labels, scores),
    },
}
GIVES_ARRAYS: dict[str, Calls] = {
    "sklearn.metrics": {
        **lookup(metrics, "accuracy_score zero_one_loss f1_score precision_score recall_score", labels, guesses),
        **lookup(metrics, "balanced_accuracy_score jaccard_score hamming_loss matthews_corrcoef", labels, guesses),
        **lookup(metrics, "log_loss brier_score_loss", labels, scores),
        **lookup(metrics, "mean_squared_error mean_absolute_error r2_score max_error", positive, positive + 0.1),
        **lookup(metrics, "explained_variance_score mean_squared_log_error", positive, positive + 0.1),
        **lookup(metrics, "median_absolute_error mean_pinball_loss d2_tweedie_score", positive, positive + 0.1),
    },
}
