"""Names of the features that models without a network of their own compute of a dataset."""

from collections.abc import Mapping
from types import MappingProxyType

ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "log_n": "logarithm of the number of images",
        "log_classes": "logarithm of the number of classes",
        "log_per_class": "logarithm of the mean number of images a class",
        "class_entropy": "entropy of the class shares relative to equal shares; 1 = balanced",
        "smallest_class": "share of the rarest class",
        "largest_class": "share of the most frequent class: 1 - it is the error of a constant answer",
        "grey": "share of images whose channels agree everywhere",
        "saturation_mean": "mean saturation of the pixels",
        "saturation_sd": "standard deviation of the saturation",
        "saturation_skew": "skewness of the saturation",
        "red_green": "correlation of the red and green channel over pixels; 1 where nothing varies",
        "red_blue": "correlation of the red and blue channel",
        "green_blue": "correlation of the green and blue channel",
        "hue_spread": "1 - length of the mean hue vector, weighted by saturation; 0 = one hue or none",
        "pixel_mean": "mean brightness",
        "pixel_sd": "standard deviation of the brightness over all pixels",
        "pixel_skew": "skewness of the brightness",
        "pixel_kurtosis": "excess kurtosis of the brightness",
        "extreme_pixels": "share of nearly black or nearly white pixels",
        "image_mean_sd": "spread over images of their mean brightness",
        "image_sd_mean": "mean over images of their contrast (standard deviation within)",
        "image_sd_sd": "spread over images of their contrast",
        "flat_border": "share of images with a nearly constant border",
        "background": "mean share of pixels that are as bright as the image's border",
        "alignment": "variance of the mean image relative to that of all pixels: are objects in one place",
        "gradient_energy": "root mean square brightness step between neighbouring pixels",
        "gradient_kurtosis": "logarithm of the kurtosis of those steps: few sharp edges against noise",
        "spectral_slope": "slope of log power on log spatial frequency",
        "high_frequencies": "share of the power above half of the highest frequency along an axis",
        "pca_1": "variance explained by the first principal component of images downsized to 8 x 8",
        "pca_2": "by the first two",
        "pca_5": "by the first five",
        "pca_10": "by the first ten",
        "pca_20": "by the first twenty",
        "dimension": "logarithm of the participation ratio of that spectrum: an effective dimension",
        "between_classes": "share of the variance that lies between classes, corrected for chance",
        "fisher_best": "largest such share along one of the first twenty components",
        "fisher_mean": "mean such share along them",
        "class_gap": "median distance of a class mean to the nearest other, in within-class deviations (logarithm)",
        "nn_gain": "cross-validated accuracy of 1-nearest-neighbour above that of the most frequent class",
        "centroid_gain": "of the nearest class mean",
        "ridge_gain": "of ridge regression on the classes",
        "bayes_gain": "of Gaussian naive Bayes",
        "edges_gain": "of ridge regression on pooled edge strengths and colours instead of components",
        "centroid_to_nn": "accuracy of the nearest class mean less that of 1-nearest-neighbour",
        "ridge_to_nn": "of ridge regression less that of 1-nearest-neighbour",
        "bayes_to_nn": "of naive Bayes less that of 1-nearest-neighbour",
        "edges_to_nn": "of ridge regression on edges less that of 1-nearest-neighbour",
        "best_landmark": "highest of those accuracies",
    }
)
"""Each feature in one line. A model file depends on their number, order and meaning."""
FEATURES: tuple[str, ...] = tuple(ABOUT)
"""Handcrafted features, in the order of `warmstart.metafeat.handcrafted.handcrafted`."""

LANDMARK_HEADS = tuple(
    f"{head}_{depth}_{size}"
    for size in (64, 32)
    for depth in ("s8", "s16", "full")
    for head in ("nearest", "centroid", "ridge")
)
"""Accuracies of simple classifiers, by depth of the network and side of the images in pixels: `SIZE` and `HALF_SIZE` of
`warmstart.metafeat.pretrained.landmarks`, written out, as it imports this."""
_MIRRORED = ("nearest_pixels", *(f"mirrored_{depth}" for depth in ("full", "pixels", "s16", "s8")), "ridge_pixels")
LANDMARK_SIZES = ("largest_class", "log_classes", "log_n", "is_grey")
LANDMARKS = (*LANDMARK_HEADS, *_MIRRORED, *LANDMARK_SIZES)
"""The 28 landmark features, in the order of `warmstart.metafeat.pretrained.landmarks.compute_landmarks`."""
