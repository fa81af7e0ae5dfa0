"""The ledger: one row for each numbered item of the paper, where it lives, which checks speak for it, and why not if none does.

No verdict is written here. The verdict of a row in an edition is computed from the checks that ran in this process; a row
whose check is missing says so. Only items that no program can decide bear a standing word instead: a definition, a problem,
a fact that is cited, a statement with unspecified constants.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proofs_checks.audit import Outcome
from proofs_checks.lemma import LEMMAS

__all__ = [
    "LEDGER",
    "SHARP_LEDGER",
    "Row",
    "grades",
    "ledger_editions",
    "markdown_map",
    "promised_checks",
    "resolve",
    "verdict",
]


@dataclass(frozen=True)
class Row:
    """One numbered item.

    Attributes
    ----------
    item, says
        Its number, and what it is about in a few words.
    where
        A name that resolves, "package.module:attribute": the definition, the algorithm, or the main check.
    checks
        Names of the checks that speak for it.
    required
        The grades of evidence that these checks must have between them.
    standing
        The word of a row without a check: "definition", "problem", "cited", "asymptotic", "informal".
    repair
        What REPAIRED puts in its place where PRINTED is refuted.
    note
        The erratum, or why there is no check.
    """

    item: str
    says: str
    where: str
    checks: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    standing: str = ""
    repair: str = ""
    note: str = "as printed"

    @property
    def kind(self) -> str:
        """The first word of the item: Lemma, Claim, Eq. and so on."""
        return self.item.split()[0]


def _checked(
    item: str, says: str, checks: Sequence[str], required: str = "sampled", repair: str = "", note: str = "as printed"
) -> Row:
    where = f"{LEMMAS[checks[0]].body.__module__}:{checks[0]}" if checks[0] in LEMMAS else "proofs_checks.lemma:LEMMAS"
    return Row(item, says, where, tuple(checks), tuple(required.split()), repair=repair, note=note)


def _standing(item: str, says: str, where: str, standing: str, note: str) -> Row:
    return Row(item, says, where, standing=standing, note=note)


_PTR = ("pass_is_private", "fail_is_private", "law_has_certain_ends")
_PTR_ALL = ("pass_is_private_at_all_scores", "fail_is_private_at_all_scores", "law_is_a_probability_at_all_scores")
_LEMMA_11 = (
    "covariances_are_close_in_order",
    "covariances_are_close_in_trace_norm",
    "covariances_of_all_pairs_are_close",
)
_RELEASE = ("mean_release_is_private", "mean_mechanism_is_private")

LEDGER: tuple[Row, ...] = (
    _standing(
        "Problem 1",
        "mean estimation in Mahalanobis distance",
        "refimpl:private_mean",
        "problem",
        "what Algorithm 1 is for",
    ),
    _standing(
        "Definition 2", "differential privacy, adjacent data", "refimpl:is_adjacent", "definition", "replace one row"
    ),
    _standing("Theorem 3", "Algorithm 1, informally", "refimpl:private_mean", "informal", "see Theorem 8; E3"),
    _standing(
        "Theorem 4", "Algorithm 5.2, informally", "refimpl:private_gaussian", "informal", "see Corollary 45; E3, E20"
    ),
    _standing("Definition 5", "good subset", "refimpl:is_good_subset", "definition", "Definition 23 restated"),
    _checked(
        "Lemma 6",
        "a largest good subset, found greedily",
        ["largest_good_subset_contains_every_good_one", "good_subsets_are_good"],
        note="informal form of Lemma 27",
    ),
    _checked("Lemma 7", "intertwining, informally", ["good_subsets_intertwine"], note="informal form of Lemma 28; E21"),
    _checked(
        "Theorem 8",
        "Algorithm 1 is private",
        [*_RELEASE, "noise_of_the_mean_scales", "sampling_error_scales", "operations_are_counted"],
        "sampled statistical",
        "the law, k, c^2 and gates of REPAIRED",
        "E3; accuracy: slopes in n and d",
    ),
    _checked(
        "Lemma 9",
        "the larger score is 2-sensitive",
        [
            "larger_score_sensitivity",
            "real_data_scores_are_stable",
            "mean_score_is_stable_with_the_quoted_gamma",
            "size_of_algorithm_1_is_enough",
        ],
        repair="floor(n/2) >= 10 k lambda_0, gamma = (50/9) lambda_0/n",
        note="E9, E14",
    ),
    _checked(
        "Claim 10",
        "the propose-test-release test",
        [*_PTR, *_PTR_ALL, "no_private_test_fails_sooner", "printed_law_fails_everywhere"],
        "sampled proved",
        "the law of E1 with k of E2",
        "E1, E2",
    ),
    _checked(
        "Lemma 11",
        "adjacent covariances are close",
        [*_LEMMA_11, "covariance_move_constants", "covariance_is_invertible_if_the_score_is_low"],
        "sampled exhaustive proved",
        "the same constants; m >= 10 k lambda_0 and lambda_0 >= 1/10",
        "E11: true, by another proof",
    ),
    _checked(
        "Claim 12", "close centred Gaussians are indistinguishable", ["covariances_are_indistinguishable"], "proved"
    ),
    _checked(
        "Lemma 13",
        "the mean moves little",
        ["mean_is_stable", "means_of_all_pairs_are_stable", "mean_move_constant"],
        "sampled exhaustive proved",
        "32 for 25, any fixed R of 4k+2",
        "E5",
    ),
    _checked("Claim 14", "the Gaussian mechanism", ["gaussian_mechanism_is_private"], "proved"),
    _checked(
        "Lemma 15",
        "Algorithm 1 is private",
        [*_RELEASE, "constants_of_lemma_15", "least_k_of_lemma_15", "step_of_lemma_15", "size_of_the_reference_set"],
        "sampled proved",
        "REPAIRED, constants computed",
        "E3, E6, E15, E17",
    ),
    _standing(
        "Remark 16",
        "other splits of the budget",
        "refimpl:MeanParameters",
        "informal",
        "a remark on choice, nothing to refute",
    ),
    _standing(
        "Definition 17", "well-concentrated data", "refimpl:is_well_concentrated", "definition", "with 1/(2m); E16"
    ),
    _checked(
        "Observation 18",
        "well-concentrated data pass through",
        ["well_concentrated_data_pass", "well_concentrated_data_have_score_0"],
        repair="Sigma_x with 1/(2m)",
        note="E16",
    ),
    _standing(
        "Claim 19",
        "subgaussian data are well-concentrated",
        "refimpl:is_well_concentrated",
        "asymptotic",
        "constants not given",
    ),
    _checked(
        "Lemma 20",
        "accuracy of Algorithm 1",
        ["noise_of_the_mean_scales", "sampling_error_scales"],
        "statistical",
        note="orders in n and d; the constants are not given",
    ),
    _checked(
        "Lemma 21",
        "running time of Algorithm 1",
        ["operations_are_counted", "section_23_finds_the_sets"],
        "statistical sampled",
        note="R has 6k rows; E21 for its e^{l/k}",
    ),
    _checked(
        "Lemma 22",
        "Lemma 11 restated",
        [*_LEMMA_11, "covariance_move_constants"],
        "sampled exhaustive proved",
        note="E11",
    ),
    _standing("Definition 23", "good weighting, good subset", "refimpl:is_good_weighting", "definition", "as printed"),
    _checked(
        "Lemma 24",
        "close good weightings, close covariances",
        [
            "weighted_covariances_are_close_in_order",
            "weighted_covariances_are_close_in_trace_norm",
            "weighted_covariances_of_one_data_set_are_close",
            "all_small_weighted_covariances_are_close_in_order",
            "all_small_weighted_covariances_are_close_in_trace_norm",
            "all_small_covariances_of_one_data_set_are_close",
        ],
        "sampled exhaustive",
        "2 for 3/2 (3/2 if eta <= rho), gamma < 1, Sigma_w > 0",
        "E13",
    ),
    _checked(
        "Lemma 25",
        "the covariance weights are good",
        ["covariance_weights_are_good", "covariance_weights_of_all_data_are_good", "goodness_constant"],
        "sampled exhaustive proved",
        "lambda_2k/(1-((k-1)^2/k) lambda_2k/m) <= (10/7) lambda_0",
        "E10",
    ),
    _checked(
        "Lemma 26",
        "the covariance weights are stable",
        ["covariance_weights_are_stable", "covariance_weights_of_all_pairs_are_stable"],
        "sampled exhaustive",
    ),
    _checked(
        "Lemma 27",
        "LargestGoodSubset is right",
        [
            "good_subsets_are_good",
            "largest_good_subset_contains_every_good_one",
            "largest_good_subsets_of_all_data",
            "largest_good_subset_exists",
        ],
        "sampled exhaustive",
        "the empty set where there is none",
        "E19",
    ),
    _checked(
        "Lemma 28",
        "good subsets nest and intertwine",
        [
            "good_subsets_intertwine",
            "good_subsets_are_nested",
            "good_subsets_of_all_data_are_nested",
            "good_subsets_of_all_pairs_intertwine",
        ],
        "sampled exhaustive",
    ),
    _checked(
        "Claim 29",
        "a good subset less one row",
        ["good_subsets_survive_a_removal", "removal_worsens_lambda"],
        "sampled proved",
    ),
    _checked(
        "Definition 30",
        "the score of the covariance stage",
        ["score_with_its_cap_is_stable", "covariance_score_sensitivity"],
        repair="with its cap, which Eq. (4) leaves out",
        note="E18",
    ),
    _checked(
        "Claim 31",
        "the score is about a distance",
        ["score_is_about_a_distance"],
        repair="m >= 10 k lambda_0",
        note="E18",
    ),
    _checked(
        "Lemma 32",
        "the covariance score is 2-sensitive",
        ["covariance_score_sensitivity", "covariance_scores_of_all_pairs"],
        "sampled exhaustive",
    ),
    _standing(
        "Definition 33",
        "degree-representative R",
        "refimpl:is_degree_representative",
        "definition",
        "2 Lambda_2k for 4 Lambda_2k; E12",
    ),
    _checked(
        "Lemma 34",
        "Lemma 13 restated",
        ["mean_is_stable", "means_of_all_pairs_are_stable", "mean_move_constant"],
        "sampled exhaustive proved",
        "32 for 25, any fixed R of 4k+2",
        "E5",
    ),
    _standing("Definition 35", "weighted core", "refimpl:is_weighted_core", "definition", "as printed"),
    _checked(
        "Remark 36",
        "the largest core contains every core",
        ["largest_core_contains_every_core", "cores_are_largest_cores"],
    ),
    _checked(
        "Corollary 37",
        "close cores, close means",
        ["means_of_close_cores_of_adjacent_data_are_close", "means_of_all_small_adjacent_cores_are_close"],
        "sampled exhaustive",
        "2 lambda for lambda",
        "E4",
    ),
    _checked(
        "Lemma 38",
        "the mean weights are a core",
        ["mean_weights_are_a_core", "mean_weights_of_all_data_are_a_core"],
        "sampled exhaustive",
        "Definition 33 with 2 Lambda_2k; floor(n/2)+1 neighbours, n/2+1 for even n and n >= 9k+2",
        "E12, E22",
    ),
    _checked(
        "Lemma 39",
        "the mean weights are stable",
        ["mean_weights_are_stable", "mean_weights_of_all_pairs_are_stable", "mean_weights_constants"],
        "sampled exhaustive proved",
    ),
    _checked(
        "Lemma 40",
        "cores nest and intertwine",
        ["cores_intertwine", "cores_are_nested", "cores_of_all_data_are_nested", "cores_of_all_pairs_intertwine"],
        "sampled exhaustive",
    ),
    _checked(
        "Definition 41",
        "the score of the mean stage",
        ["score_is_that_of_its_definition"],
        repair="the thresholds of Eq. (67)",
        note="E14",
    ),
    _checked(
        "Lemma 42",
        "the mean score is 2-sensitive",
        [
            "mean_score_sensitivity",
            "mean_scores_of_all_pairs",
            "lemma_42_is_not_vacuous",
            "mean_score_is_stable_with_the_meant_gamma",
        ],
        "sampled exhaustive",
        "gamma = (50/9) lambda_0/n",
        "E14",
    ),
    _checked(
        "Theorem 43",
        "Algorithm 5.1 is private",
        [
            "covariance_release_is_private",
            "covariance_mechanism_is_private",
            "draws_are_private",
            "step_of_theorem_43",
            "number_of_draws",
            "noise_of_the_covariance_scales",
            "noise_of_the_covariance_grows_with_the_dimension",
            "size_of_algorithm_51_is_enough",
        ],
        "sampled proved statistical",
        "the law, k, N and gates of REPAIRED",
        "E3, E7, E8; accuracy: slopes in n and d",
    ),
    _standing("Claim 44", "parameters to total variation", "refimpl:private_gaussian", "cited", "constant not given"),
    _checked(
        "Corollary 45",
        "Algorithm 5.2 is private",
        ["learner_release_is_private"],
        "sampled",
        "half of (epsilon, delta) to each half of REPAIRED",
        "basic composition of Theorems 8 and 43; E3, E20",
    ),
    _checked("Claim 46", "N draws are indistinguishable", ["products_are_indistinguishable"], "proved"),
    _standing(
        "Definition 47",
        "subgaussian norm",
        "refimpl:is_well_concentrated",
        "definition",
        "for the accuracy statements only",
    ),
    _standing(
        "Definition 48",
        "subgaussian variable",
        "refimpl:is_well_concentrated",
        "definition",
        "for the accuracy statements only",
    ),
    _standing(
        "Claim 49", "concentration of the norm", "refimpl:is_well_concentrated", "asymptotic", "constant not given"
    ),
    _standing(
        "Claim 50",
        "concentration of the covariance",
        "refimpl:is_well_concentrated",
        "asymptotic",
        "constants not given",
    ),
    _checked(
        "Claim 51",
        "hypergeometric tails",
        ["hypergeometric_tail", "hypergeometric_tail_of_small_urns"],
        "proved exhaustive",
    ),
    _standing("Fact 52", "basic composition", "proofs_checks.privacy:mean_release_is_private", "cited", "standard"),
    _standing(
        "Fact 53",
        "indistinguishability is nearly transitive",
        "proofs_checks.privacy:mean_release_is_private",
        "cited",
        "standard",
    ),
    _checked(
        "Lemma 54",
        "Lemma 24 restated",
        [
            "weighted_covariances_are_close_in_order",
            "weighted_covariances_are_close_in_trace_norm",
            "weighted_covariances_of_one_data_set_are_close",
            "all_small_weighted_covariances_are_close_in_order",
            "all_small_weighted_covariances_are_close_in_trace_norm",
            "all_small_covariances_of_one_data_set_are_close",
        ],
        "sampled exhaustive",
        "2 for 3/2 (3/2 if eta <= rho)",
        "E13",
    ),
    _checked(
        "Lemma 55",
        "close cores of one data set, close means",
        ["means_of_close_cores_are_close", "means_of_all_small_cores_are_close"],
        "sampled exhaustive",
        "",
        "true; 2 is the tight constant, 4 is printed; E4",
    ),
    _checked(
        "Corollary 56",
        "Corollary 37 restated",
        ["means_of_close_cores_of_adjacent_data_are_close", "means_of_all_small_adjacent_cores_are_close"],
        "sampled exhaustive",
        "2 lambda for lambda",
        "E4",
    ),
    _checked(
        "Lemma 57",
        "Lemma 42 restated",
        ["mean_score_sensitivity", "mean_scores_of_all_pairs", "lemma_42_is_not_vacuous"],
        "sampled exhaustive",
        "gamma = (50/9) lambda_0/n",
        "E14",
    ),
    _checked(
        "Claim 58",
        "the test, with its law",
        [*_PTR, "formula_is_a_probability", *_PTR_ALL, "printed_law_fails_everywhere"],
        "sampled proved",
        "the law of E1",
        "E1, E2",
    ),
    _checked(
        "Algorithm 1",
        "private mean",
        [
            "release_follows_the_test",
            "release_has_the_stated_noise",
            "gate_and_noise_in_the_plane",
            "pipeline_equals_refimpl",
            "private_mean_equals_refimpl",
            "certified_decisions_equals_refimpl",
        ],
        repair="",
        note="E6, E20",
    ),
    _checked(
        "Algorithm StableCovariance",
        "covariance stage",
        ["covariance_stage_equals_refimpl", "covariance_score_sensitivity"],
    ),
    _checked(
        "Algorithm LargestGoodSubset",
        "outlier removal",
        ["largest_good_subset_contains_every_good_one", "good_subsets_are_good"],
        note="E19",
    ),
    _checked("Algorithm StableMean", "mean stage", ["mean_stage_equals_refimpl", "mean_score_sensitivity"], note="E20"),
    _checked("Algorithm LargestCore", "largest core", ["largest_core_contains_every_core", "cores_are_largest_cores"]),
    _checked(
        "Algorithm 5.1",
        "private covariance",
        ["covariance_release_is_private", "size_of_algorithm_51_is_enough"],
        repair="floor(n/2) >= 10 k lambda_0, N of E7",
        note="E7, E8",
    ),
    _checked(
        "Algorithm 5.2",
        "private Gaussian learner",
        ["learner_release_is_private"],
        repair="one pairing, in Algorithm 5.1",
        note="runs Algorithms 1 and 5.1; E8, E20",
    ),
    _checked(
        "Eq. (21)", "the n that Claim 12 asks for", ["least_n_of_lemma_15"], "proved", "7500/199 for 2500/597", "E17"
    ),
    _checked("Eq. (22)", "(1/(1-gamma))^(2k+1) <= 65/37", ["stretch_is_bounded"], "proved"),
    _checked(
        "Eq. (23)",
        "810",
        ["constants_of_the_noise", "constants_of_lemma_15"],
        "proved",
        "c^2 computed from E5",
        "E6, E15",
    ),
    _checked("Eq. (24)", "the paired covariance", ["well_concentrated_data_have_score_0"], repair="1/(2m)", note="E16"),
    _checked("Eq. (29)", "1800", ["numerator_of_the_noise"], "proved", "c^2 computed from E5", "E6"),
    _checked(
        "Eq. (39)-(41)",
        "downdating the norms",
        ["downdates_follow_the_formula"],
        repair="where the divisor is not zero",
        note="E19",
    ),
    _checked(
        "Eq. (47)",
        "gamma of Lemma 11",
        ["arithmetic_of_lemma_11", "covariance_move_constants"],
        "proved",
        "m = n/2 only for even n; the constant stands",
        "E9, E11",
    ),
    _checked(
        "Eq. (48)",
        "trace norm of Lemma 11",
        ["arithmetic_of_lemma_11", "covariance_move_constants"],
        "proved",
        "m = n/2 only for even n; the constant stands",
        "E9, E11",
    ),
    _checked(
        "Eq. (49)", "thresholds lambda_ell", ["thresholds_outgrow_removal"], "proved", note="E21 for its other forms"
    ),
    _checked("Eq. (54)", "removal against the next threshold", ["thresholds_outgrow_removal"], "proved"),
    _checked("Eq. (56)", "the average of the levels", ["goodness_constant"], "proved", "the sum starts at k+1", "E10"),
    _checked(
        "Eq. (67)",
        "thresholds Lambda_ell",
        ["cores_intertwine", "score_is_that_of_its_definition"],
        repair="Definition 41 must use them",
        note="E14",
    ),
    _checked("Eq. (84)-(85)", "normalising constants", ["mean_weights_constants"], "proved"),
    _checked("Eq. (90)-(92)", "N", ["number_of_draws", "draws_are_private"], "proved", "17/2 for 17/20", "E7"),
    _checked("Eq. (115)-(116)", "1.05", ["trace_norms_are_bounded_as_in_the_proof"], repair="1/(1-gamma)", note="E13"),
    _checked(
        "Eq. (135)",
        "the printed law",
        ["formula_is_a_probability", "pass_is_private"],
        repair="the law of E1",
        note="E1",
    ),
    _checked(
        "Eq. (136)-(146)",
        "the printed proof",
        ["pass_is_private", "printed_law_fails_everywhere", "pass_is_private_at_all_scores"],
        "sampled proved",
        "the proof of E1",
        "E1, E21",
    ),
)


SHARP_LEDGER: tuple[Row, ...] = (
    _checked("S1", "largest good subsets of the rows (1, x), nested", ["sharp_subsets_are_good"], note="Lemma 27"),
    _checked(
        "S2",
        "good subsets of adjacent data are intertwined",
        ["sharp_subsets_intertwine", "sharp_all_pairs"],
        "sampled exhaustive",
        note="Lemma 28 at n/(H - ell)",
    ),
    _checked(
        "S3",
        "no slower thresholds",
        ["sharp_thresholds_are_least"],
        "exhaustive",
        note="Claim 29, attained by equal rows",
    ),
    _checked(
        "S4",
        "the score has sensitivity 1",
        ["sharp_score_sensitivity", "sharp_all_pairs"],
        "sampled exhaustive",
        note="the maximum in place of the sum",
    ),
    _checked(
        "S5",
        "how many rows change their weight, and by how much",
        ["sharp_few_rows_change", "sharp_all_pairs"],
        "sampled exhaustive",
        note="the window may start at k",
    ),
    _checked("S6", "shares of rows of a level", ["sharp_rows_are_near"], note="attained"),
    _checked(
        "S7",
        "loss and gain, relative to the side that has them",
        ["sharp_loss_is_bounded", "sharp_all_pairs"],
        "sampled exhaustive",
        note="no factor 1/(1-gamma); attained",
    ),
    _checked(
        "S8", "the Schur complement inherits the change", ["sharp_covariances_are_close"], note="Cauchy's interlacing"
    ),
    _checked("S9", "how far the mean moves", ["sharp_means_are_close"], note="within two per cent of attained"),
    _checked(
        "S10",
        "positive definite below k; when the score is always k",
        ["sharp_covariance_is_positive"],
        note="public reason",
    ),
    _checked(
        "S11",
        "score 0 gives sample mean and scatter",
        ["sharp_concentrated_rows_pass"],
        note="and only concentrated rows do",
    ),
    _checked("S12", "affine equivariance", ["sharp_is_equivariant"], note="exact"),
    _checked("S13", "Q in closed form", ["sharp_change_in_closed_form"], "proved", note="uniform weights"),
    _checked("S14", "the extremal spectrum of N draws", ["sharp_extremal_spectrum"], note="Schur-convexity"),
    _checked("S15", "mean and covariance of one draw", ["sharp_joint_bound"], note="in place of Fact 53"),
    _checked(
        "S16",
        "which angle is the worst",
        ["sharp_angle_zero_is_worst"],
        note="angle 0 from K = (3/2) q/(1-q) on; 3/2 is best",
    ),
    _checked("S17", "mean and N draws together", ["sharp_learner_bound"], note="one test, one budget"),
    _checked(
        "S18",
        "two conditions, and the least law that meets them",
        ["sharp_conditions_hold"],
        "exhaustive",
        note="small plans",
    ),
    _checked(
        "S19",
        "the mechanism is private",
        ["sharp_mechanism_is_private", "sharp_release_follows_the_law"],
        note="exact delta of the whole, end to end",
    ),
    _checked("S20", "how little noise is enough", ["sharp_noise_is_bounded"], note="explicit constants"),
    _checked(
        "S21",
        "Gaussian rows: law of a leverage, accuracy",
        ["sharp_gaussian_leverages", "sharp_concentrated_rows_pass"],
        "statistical sampled",
        note="the form of Lemma 20",
    ),
)
"""SHARP's statements, with their proofs in ``SHARP.md``."""


def ledger_editions(row: Row) -> tuple[str, ...]:
    """The editions in which a row has a verdict."""
    return ("SHARP",) if row in SHARP_LEDGER else ("PRINTED", "REPAIRED")


def resolve(where: str) -> object:
    """The object that a ledger's ``where`` names; raises if it does not resolve."""
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def promised_checks() -> frozenset[str]:
    """The names of all checks that some row counts on."""
    return frozenset(name for row in (*LEDGER, *SHARP_LEDGER) for name in row.checks)


def verdict(row: Row, edition: str, outcomes: Iterable[Outcome]) -> str:
    """The verdict of a row in an edition, from the outcomes of this process: never from anything that is written down.

    "held" needs every check of the row that could run to have held; one refuted check refutes the row; a check that is missing
    or has not run is said to be so.
    """
    if row.standing:
        return row.standing
    missing = [name for name in row.checks if name not in LEMMAS]
    if missing:
        return f"NO CHECK: {missing[0]}"
    of_row = [o for o in outcomes if o.check.name in row.checks and o.target.edition.name == edition]
    found = {o.verdict for o in of_row}
    for word in ("raised", "refuted"):
        if word in found:
            return word
    idle = [n for n in row.checks if not any(o.check.name == n and o.verdict == "held" for o in of_row)]
    if idle and not all(any(o.check.name == n for o in of_row) for n in idle):
        return f"NOT RUN: {idle[0]}"
    if not found & {"held"}:
        return "not run: " + next((o.note for o in of_row if o.note), "nothing to compare")
    repaired = edition == "REPAIRED" and row.repair
    without = f" (not run: {', '.join(idle)})" if idle else ""
    return (f"held, as repaired: {row.repair}" if repaired else "held") + without


def grades(row: Row) -> frozenset[str]:
    """The grades of evidence that the checks of a row have between them."""
    return frozenset(LEMMAS[name].evidence for name in row.checks if name in LEMMAS)


def markdown_map() -> str:
    """The map from paper to project as a Markdown table: item, what it says, where it lives, evidence, erratum or note."""
    sharp = "SHARP's own statements, with proofs in [SHARP.md](proofs_checks/SHARP.md):"
    return "\n".join([*_markdown(LEDGER), "", sharp, "", *_markdown(SHARP_LEDGER)]) + "\n"


def _markdown(rows: Iterable[Row]) -> list[str]:
    lines = ["| item | what it says | where it lives | evidence | note |", "|---|---|---|---|---|"]
    for row in rows:
        evidence = ", ".join(sorted(grades(row))) or row.standing
        lines.append(f"| {row.item} | {row.says} | `{row.where}` | {evidence} | {row.note} |")
    return lines
