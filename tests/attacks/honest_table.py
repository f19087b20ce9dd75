"""The honest twins: what must be accepted, whatever is done against the attacks."""

from __future__ import annotations

import msgspec

from tests.attacks.table import Device

__all__ = ["HONEST", "Honest"]


class Honest(msgspec.Struct, frozen=True):
    """``honest/NAME.py``; ``slow`` ones compile for so long that they run on request only."""

    name: str
    task: str = "small"
    device: Device = "both"
    compiles: bool = False
    slow: bool = False


_ALL = (
    Honest("plain_torch", task="elementwise"),
    Honest("scratch_in_place"),
    Honest("cached_workspace"),
    Honest("cpp_parallel_for", device="cpu", compiles=True),
    Honest("cpp_openmp_avx", device="cpu", compiles=True),
    Honest("built_in_forward", compiles=True, slow=True),
    Honest("c_through_ctypes", device="cpu", compiles=True),
    Honest("weight_folding", task="weights"),
    Honest("weights_prepared_in_first_call", task="weights"),
    Honest("registered_buffers"),
    Honest("nested_outputs", task="nested"),
    Honest("plain_number_output", task="with_count"),
    Honest("split_products", task="clamped"),
    Honest("half", task="half"),
    Honest("bfloat", task="bfloat"),
    Honest("double", task="double"),
    Honest("integers", task="integers"),
    Honest("empty_output", task="empty"),
    Honest("empty_array_of_numpy", task="empty", device="cpu"),
    Honest("scalar_output", task="scalar"),
    Honest("dot_in_two_steps", task="zero_mean"),
    Honest("outer_by_broadcasting", task="outer"),
    Honest("not_contiguous_output", task="transposed"),
    Honest("contiguous_where_the_reference_is_not", task="transposed"),
    Honest("channels_last", task="channels_last"),
    Honest("view_of_fresh_memory"),
    Honest("aliases_as_the_reference_does", task="view_of_input"),
    Honest("in_place_as_the_reference", task="in_place"),
    Honest("misleading_docstring"),
    Honest("optional_import"),
    Honest("torch_compile"),
    Honest("torch_compile_inductor", compiles=True, slow=True),
    Honest("scripted"),
    Honest("graph_module"),
    Honest("shape_dispatch", task="two_lengths"),
    Honest("hard_coded_shape"),
    Honest("times_its_variants"),
    Honest("looks_around"),
    Honest("talks_to_itself"),
    Honest("threads_that_are_joined", device="cpu"),
    Honest("constant_tables"),
    Honest("prints_a_lot"),
    Honest("base_class_of_its_own", task="weights"),
    Honest("reads_its_own_file"),
    Honest("numpy_inside"),
    Honest("temporary_files"),
    Honest("starts_a_process"),
    Honest("runs_programs", task="softmax", device="cpu"),
    Honest("dropout_like_the_reference", task="dropout"),
    Honest("convolution", task="conv"),
    Honest("blocked_matmul", task="matmul", device="cpu"),
    Honest("online_softmax", task="softmax"),
    Honest("cuda_inline", device="cuda", compiles=True),
    Honest("cuda_triton", task="softmax", device="cuda", compiles=True),
    Honest("cuda_cublas", task="weights", device="cuda"),
    Honest("cuda_joined_streams", device="cuda"),
    Honest("cuda_graph", device="cuda"),
    Honest("skips_what_is_zero", task="triangular"),
    Honest("reads_the_other_half", task="symmetric"),
    Honest("counts_lower_edges", task="edges"),
    Honest("multiplies_by_a_mask", task="masked"),
    Honest("copies_what_lies_turned", task="lies_turned"),
    Honest("takes_both_for_one", task="one_twice"),
    Honest("returns_what_is_fresh", task="keeps_its_output"),
    Honest("spectrum_in_double", task="spectrum"),
    Honest("multiplies_to_quantize", task="quantized"),
    Honest("adds_in_double", task="sums_as_numbers"),
    Honest("sorts_stably", task="sorted_rows", device="cpu"),
    Honest("wants_finite_numbers"),
    Honest("mean_in_float", task="mean_error"),
    Honest("maximum_in_two_steps", task="brightest"),
    Honest("many_outputs", task="many"),
    Honest("keeps_running_statistics", task="batch_statistics"),
    Honest("looks_for_both_at_once", task="min_max"),
    Honest("sums_by_rows", task="metrics"),
    Honest("counts_by_rows", task="readings"),
    Honest("drifts_by_rows", task="drift"),
    Honest("turns_rotors_in_place", task="rotors"),
    Honest("averages_by_interpolation", task="averaged"),
    Honest("moves_bodies_by_quarters", task="bodies"),
    Honest("limits_in_one_pass", task="limiter", device="cpu"),
    Honest("norms_by_parts", task="wave"),
    Honest("steps_in_place", task="adam"),
    Honest("nearest_without_squares", task="codebook"),
    Honest("byte_table", task="living"),
    Honest("solves_without_factors", task="factors"),
    Honest("splits_one_product", task="three_products"),
    Honest("returns_columns", task="factors"),
    Honest("counts_in_place", task="points"),
    Honest("solves_what_is_definite", task="portfolio"),
    Honest("solves_by_factor", task="newton_steps"),
    Honest("weighs_by_one_product", task="incomes"),
    Honest("takes_the_root_first", task="scatter"),
    Honest("keeps_bounds_in_place", task="paths"),
    Honest("solves_by_factors", task="basis"),
    Honest("keeps_equals_in_order", task="by_expert"),
    Honest("multiplies_to_float8", task="float8"),
    Honest("computes_twice", task="twice"),
    Honest("turns_heads", task="turned_heads", device="cpu", compiles=True),
    Honest("cuda_large_shared_memory", task="softmax", device="cuda", compiles=True),
    Honest("cuda_half2", task="half", device="cuda", compiles=True),
    Honest("cuda_split_tensor_cores", task="clamped", device="cuda", compiles=True),
    Honest("cuda_nvrtc", task="softmax", device="cuda"),
    Honest("cuda_default_stream", device="cuda", compiles=True),
)

HONEST = {h.name: h for h in _ALL}
