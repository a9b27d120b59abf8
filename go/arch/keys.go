package arch

import "slices"

// Writers of files, and where definitions stand.
const (
	spec         = "GGUF specification"
	converter    = "converter and constants of llama.cpp"
	ollama       = "converter of Ollama"
	transformers = "configurations of transformers"
	yarnPaper    = "Peng et al. 2023 (YaRN)"
	quantizers   = "exporters of FP8, NVFP4, AWQ and GPTQ checkpoints"
)

// ofWidth is a default that follows from other keys.
const ofWidth = "embedding_length / attention.head_count"

// common is what every family reads, apart from what each states by itself, such as bases of rotation.
var common = Facts{
	{Name: "block_count", Effect: Read, Reason: "layers", Source: spec},
	{Name: "context_length", Effect: Read, Reason: "positions of the training; the sequence's length unless chosen, and YaRN's original length unless stated", Source: spec},
	{Name: "embedding_length", Effect: Read, Reason: "width of the residual stream", Source: spec},
	{Name: "feed_forward_length", Effect: Read, Reason: "width of the feed-forward part, one for all layers or one each", Source: spec},
	{Name: "vocab_size", Effect: Read, Default: "tokens of the vocabulary, else rows of the embedding table", Reason: "rows of the embedding table", Source: spec},
	{Name: "attention.head_count", Effect: Read, Reason: "query heads, one for all layers or one each", Source: spec},
	{Name: "attention.head_count_kv", Effect: Read, Default: "attention.head_count", Reason: "heads of keys and values", Source: spec},
	{Name: "attention.key_length", Aliases: []string{"attention.head_dim"}, Effect: Read, Default: ofWidth, Reason: "width of a head of queries and keys", Source: spec + "; the other name: " + ollama},
	{Name: "attention.value_length", Effect: Read, Default: "attention.key_length", Reason: "width of a head of values", Source: spec},
	{Name: "attention.layer_norm_rms_epsilon", Effect: Read, Reason: "epsilon of the norms; no family has a silent default", Source: spec},
	{Name: "attention.sliding_window", Effect: Read, Default: 0.0, Reason: "a position sees so many up to itself; 0: all", Source: converter},
	{Name: "attention.scale", Effect: Read, Default: "1 / √attention.key_length", Reason: "factor of query times key", Source: converter},
	{Name: "attn_logit_softcapping", Effect: Read, Default: 0.0, Reason: "bound of attention scores; 0: none", Source: converter},
	{Name: "final_logit_softcapping", Effect: Read, Default: 0.0, Reason: "bound of logits; 0: none", Source: converter},

	{Name: "rope.dimension_count", Effect: Read, Default: "attention.key_length", Reason: "elements of a head that rotate", Source: spec},
	{Name: "rope.scaling.type", Effect: Read, Default: "linear", Reason: "none, linear or yarn; others are refused", Source: spec},
	{Name: "rope.scaling.factor", Aliases: []string{"rope.scale_linear"}, Effect: Read, Default: 1.0, Reason: "positions are divided by it; 0 stands for 1", Source: spec},
	{Name: "rope.scaling.attn_factor", Effect: Read, Default: 1.0, Reason: "factor of the rotation's sine and cosine", Source: spec},
	{Name: "rope.scaling.original_context_length", Effect: Read, Default: "context_length", Reason: "YaRN: positions before scaling", Source: spec},
	{Name: "rope.scaling.yarn_ext_factor", Aliases: []string{"rope.scaling.extrapolation_factor"}, Effect: Read, Default: 1.0, Reason: "YaRN: share of extrapolation", Source: converter + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_beta_fast", Aliases: []string{"rope.scaling.beta_fast"}, Effect: Read, Default: 32.0, Reason: "YaRN: rotations from which on frequencies stay", Source: yarnPaper + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_beta_slow", Aliases: []string{"rope.scaling.beta_slow"}, Effect: Read, Default: 1.0, Reason: "YaRN: rotations up to which frequencies are scaled", Source: yarnPaper + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_attn_factor", Effect: Read, Default: "1 + 0.1·ln(rope.scaling.factor)", Reason: "YaRN: factor of attention; another than the default is refused, since writers disagree whether it replaces or multiplies that", Source: converter},
}

// otherDesigns is keys of designs that no family here has, unless a row of its own stands before.
var otherDesigns = slices.Concat(Facts{
	{Name: "attention.causal", Effect: Refused, Usual: []any{true}, Reason: "attention in both directions is not computed here", Source: converter},
	{Name: "attention.max_alibi_bias", Effect: Refused, Usual: []any{0.0}, Reason: "linear biases of attention are not computed here", Source: spec},
	{Name: "attention.clamp_kqv", Effect: Refused, Usual: []any{0.0}, Reason: "queries, keys and values are not clamped here", Source: spec},
	{Name: "attention.output_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "the factor of attention's output is not computed here", Source: converter},
	{Name: "attention.value_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "the factor of values is not computed here", Source: converter},
	{Name: "attention.temperature_*", Effect: Refused, Usual: []any{0.0}, Reason: "scores that depend on the position are not computed here", Source: converter},
	{Name: "attention.relative_buckets_count", Effect: Refused, Usual: []any{0.0}, Reason: "relative biases of attention are not computed here", Source: converter},
	{Name: "attention.sliding_window_pattern", Effect: Refused, Usual: []any{1.0}, Reason: "this architecture's layers have no pattern of windows", Source: converter},
	{Name: "attention.key_length_*", Effect: Refused, Usual: []any{0.0}, Reason: "heads of another width in some layers, or of a latent form, are not computed here", Source: converter},
	{Name: "attention.value_length_*", Effect: Refused, Usual: []any{0.0}, Reason: "heads of another width in some layers, or of a latent form, are not computed here", Source: converter},
	{Name: "attention.shared_kv_layers", Effect: Refused, Usual: []any{0.0}, Reason: "layers that share keys and values are not computed here", Source: converter},
	{Name: "attention.recurrent_layers", Effect: Refused, Usual: []any{0.0, false}, Reason: "recurrent layers are not computed here", Source: converter},
	{Name: "attention.rope_pattern", Effect: Refused, Usual: []any{1.0, true}, Reason: "layers that do not rotate are not computed here", Source: converter},
	{Name: "attention.indexer.*", Effect: Refused, Usual: []any{0.0}, Reason: "sparse attention is not computed here", Source: converter},
	{Name: "attention.*_lora_rank", Effect: Refused, Usual: []any{0.0}, Reason: "latent projections are not computed here", Source: converter},
	{Name: "attention.layer_norm_epsilon", Effect: Harmless, Reason: "of norms with a mean, which the families here do not have; tensors of such norms are refused", Source: converter + ", " + ollama},
	{Name: "attention.group_norm_*", Effect: Refused, Usual: []any{0.0}, Reason: "group norms are not computed here", Source: converter},
	{Name: "full_attention_interval", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers with another form of attention are not computed here", Source: converter},
	{Name: "num_loops", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers that run several times are not computed here", Source: converter},

	{Name: "rope.freq_base_swa", Aliases: []string{"rope.local.freq_base"}, Effect: Refused, Reason: "this architecture's layers have one base of rotation", Source: converter + ", " + ollama},
	{Name: "rope.dimension_count_swa", Effect: Refused, Reason: "layers that rotate differently are not computed here", Source: converter},
	{Name: "rope.dimension_sections", Aliases: []string{"rope.mrope_section"}, Effect: Harmless, Reason: "the sections of text have one position, which makes them one rotation: Wang et al. 2024 (Qwen2-VL), 2.1", Source: converter + ", " + ollama},
	{Name: "rope.scaling.finetuned", Effect: Harmless, Reason: "says how the model was trained, not how it is computed", Source: spec},
	{Name: "rope.scaling.yarn_log_multiplier", Effect: Refused, Usual: []any{0.0}, Reason: "attention of another scale is not computed here", Source: converter},
	{Name: "rope.scaling.alpha", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "a base that grows with the context is not computed here", Source: converter},
	{Name: "rope.scaling.mscale*", Effect: Refused, Usual: []any{0.0}, Reason: "attention of another scale is not computed here", Source: ollama},
	{Name: "rope.scaling_beta", Effect: Refused, Usual: []any{0.0}, Reason: "scores that depend on the position are not computed here", Source: ollama},
	{Name: "rope.scaling.low_freq_factor", Effect: Refused, Reason: "factors of frequencies are read from tensor rope_freqs.weight alone", Source: transformers},
	{Name: "rope.scaling.high_freq_factor", Effect: Refused, Reason: "factors of frequencies are read from tensor rope_freqs.weight alone", Source: transformers},
	{Name: "rope.scaling.original_max_position_embeddings", Effect: Refused, Reason: "rope.scaling.original_context_length is read alone", Source: transformers},

	{Name: "embedding_scale", Effect: Refused, Reason: "the embedding's factor is the architecture's own", Source: converter},
	{Name: "residual_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "the factor of each layer's sum is not computed here", Source: converter},
	{Name: "logit_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "the factor of logits is not computed here", Source: converter},
	{Name: "router_logit_softcapping", Effect: Refused, Usual: []any{0.0}, Reason: "bounds of a router are not computed here", Source: converter},
	{Name: "use_parallel_residual", Effect: Refused, Usual: []any{false}, Reason: "attention beside the feed-forward part is not computed here", Source: spec},
	{Name: "norm_before_*", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not computed here", Source: converter},
	{Name: "skip_loop_final_norm", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not computed here", Source: converter},
	{Name: "swin_norm", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not computed here", Source: converter},
	{Name: "tensor_data_layout", Effect: Refused, Usual: []any{"reference"}, Reason: "weights in another order than the architecture's are not read here", Source: spec},
	{Name: "activation_sparsity_scale", Effect: Refused, Usual: []any{0.0}, Reason: "sparse activations are not computed here", Source: converter},
	{Name: "swiglu_clamp_*", Effect: Refused, Usual: []any{0.0}, Reason: "gated units with bounds are not computed here", Source: converter},
	{Name: "activation.*", Effect: Refused, Reason: "other activations are not computed here", Source: converter},
	{Name: "nextn_predict_layers", Effect: Refused, Usual: []any{0.0}, Reason: "block_count holds layers that predict further tokens, which are no part of the model's depth", Source: converter},
	{Name: "leading_dense_block_count", Effect: Refused, Usual: []any{0.0}, Reason: "layers without experts beside such with experts are not computed here", Source: converter},
	{Name: "interleave_moe_layer_step", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers without experts beside such with experts are not computed here", Source: converter},
	{Name: "moe_every_n_layers", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers without experts beside such with experts are not computed here", Source: converter},
	{Name: "moe_latent_size", Effect: Refused, Usual: []any{0.0}, Reason: "experts of a latent form are not computed here", Source: converter},
	{Name: "expert_weights_norm", Effect: Refused, Usual: []any{true}, Reason: "weights of experts are normalized here", Source: converter},
	{Name: "norm_top_k_prob", Effect: Refused, Usual: []any{true}, Reason: "weights of experts are normalized here", Source: ollama},
	{Name: "expert_weights_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "the factor of experts' weights is not computed here", Source: converter},
	{Name: "expert_gating_func", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "gates other than softmax are not computed here", Source: converter},
	{Name: "expert_*", Effect: Refused, Usual: []any{0.0}, Reason: "this form of experts is not computed here", Source: converter},
	{Name: "experts_per_group", Effect: Refused, Usual: []any{0.0}, Reason: "this form of experts is not computed here", Source: converter},
	{Name: "adapters.*", Effect: Refused, Usual: []any{0.0}, Reason: "adapters are not computed here", Source: converter},
	{Name: "decoder_*", Effect: Refused, Reason: "encoders with decoders are not computed here", Source: converter},
	{Name: "n_deepstack_layers", Effect: Harmless, Reason: "of images; text alone is computed here", Source: converter},
	{Name: "deepstack_mapping", Effect: Harmless, Reason: "of images; text alone is computed here", Source: converter},
	{Name: "embedding_length_per_layer_input", Effect: Refused, Usual: []any{0.0}, Reason: "embeddings for each layer are not computed here", Source: converter},
	{Name: "features_length", Effect: Refused, Usual: []any{0.0}, Reason: "inputs that are no tokens are not computed here", Source: converter},
	{Name: "rescale_every_n_layers", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not computed here", Source: spec},
	{Name: "hash_layer_count", Effect: Refused, Usual: []any{0.0}, Reason: "layers of another form are not computed here", Source: converter},

	{Name: "pooling_type", Effect: Harmless, Reason: "sums up a text for an embedding; logits stay", Source: converter},
	{Name: "classifier.*", Effect: Harmless, Reason: "of what stands behind the last hidden state; logits stay", Source: converter},
	{Name: "dense_*", Effect: Harmless, Reason: "of what stands behind the last hidden state; logits stay", Source: converter},
	{Name: "embedding_length_out", Effect: Harmless, Reason: "of what stands behind the last hidden state; logits stay", Source: converter},
	{Name: "vision.*", Effect: Harmless, Reason: "of images; text alone is computed here", Source: ollama},
	{Name: "audio.*", Effect: Harmless, Reason: "of sound; text alone is computed here", Source: ollama},
	{Name: "mm.*", Effect: Harmless, Reason: "of images; text alone is computed here", Source: ollama},
	{Name: "*image_token_id", Effect: Harmless, Reason: "of images; text alone is computed here", Source: ollama},
}, layersOfAnotherForm("ssm", "wkv", "kda", "hrm", "ple", "altup", "posnet", "convnext", "shortconv", "hyper_connection", "attn_res"),
	Facts{
		{Name: "time_*_extra_dim", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not computed here", Source: converter},
		{Name: "token_shift_count", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not computed here", Source: converter},
	})

func layersOfAnotherForm(names ...string) (all Facts) {
	for _, name := range names {
		all = append(all, Fact{Name: name + ".*", Effect: Refused, Usual: []any{0.0, false}, Reason: "layers of another form are not computed here", Source: converter})
	}
	return all
}

// activations are the keys by which writers name the function of the feed-forward part; usual are the family's.
func activations(usual ...any) (all Facts) {
	for _, name := range []string{"hidden_activation", "hidden_act", "activation_function"} {
		all = append(all, Fact{Name: name, Effect: Refused, Usual: usual, Reason: "the activation is the architecture's own", Source: converter + ", " + transformers})
	}
	return all
}

// noExperts is the rows of a family without them.
var noExperts = Facts{
	{Name: "expert_count", Effect: Refused, Usual: []any{0.0}, Reason: "this architecture's layers have no experts", Source: converter},
	{Name: "expert_used_count", Effect: Refused, Usual: []any{0.0}, Reason: "this architecture's layers have no experts", Source: converter},
}

// fileKeys is keys of no architecture. Package gguf reads those of parts and alignment.
var fileKeys = Facts{
	{Name: "general.architecture", Effect: Read, Reason: "the family", Source: spec},
	{Name: "general.alignment", Effect: Read, Default: 32.0, Reason: "where the bytes of tensors begin", Source: spec},
	{Name: "split.*", Effect: Read, Default: "one file", Reason: "parts of a set", Source: converter},
	{Name: "general.type", Effect: Refused, Usual: []any{"model"}, Reason: "not a model of its own", Source: converter},
	{Name: "general.quantization_version", Effect: Refused, Usual: []any{2.0}, Reason: "blocks of another version than 2 have other bytes", Source: spec},
	{Name: "adapter.*", Effect: Refused, Reason: "adapters are not computed here", Source: converter + ", " + ollama},
	{Name: "general.file_type", Effect: Harmless, Reason: "every tensor has its own type", Source: spec},
	{Name: "general.tensor_extra.*", Effect: Harmless, Reason: "asks for activations of more than 4 bits, which all here are", Source: converter},
	{Name: "general.sampling.*", Effect: Harmless, Reason: "advice for choosing tokens; the caller chooses", Source: converter},
	{Name: "general.*", Effect: Harmless, Reason: "names, licences, sources", Source: spec},
	{Name: "clip.*", Effect: Harmless, Reason: "of images; text alone is computed here", Source: converter},
	{Name: "imatrix.*", Effect: Harmless, Reason: "how weights were chosen", Source: converter},
	{Name: "quantize.*", Effect: Harmless, Reason: "how weights were chosen", Source: converter},
	{Name: "skeep.*", Effect: Harmless, Reason: "an example prompt", Source: "this project"},
}

// otherTensors is tensors beside those of a family.
var otherTensors = Facts{
	{Name: "v.*", Effect: Harmless, Reason: "of images; text alone is computed here", Source: converter + ", " + ollama},
	{Name: "a.*", Effect: Harmless, Reason: "of sound; text alone is computed here", Source: converter + ", " + ollama},
	{Name: "mm.*", Effect: Harmless, Reason: "of images; text alone is computed here", Source: converter + ", " + ollama},
	{Name: "cls.*", Effect: Harmless, Reason: "behind the last hidden state; logits stay", Source: converter},
	{Name: "dense_2.*", Effect: Harmless, Reason: "behind the last hidden state; logits stay", Source: converter},
	{Name: "dense_3.*", Effect: Harmless, Reason: "behind the last hidden state; logits stay", Source: converter},
	{Name: "*.attn_rot_embd.weight", Effect: Harmless, Reason: "frequencies of rotation, which follow from the base", Source: "early " + converter},
	{Name: "*.rotary_emb.inv_freq", Effect: Harmless, Reason: "frequencies of rotation, which follow from the base", Source: transformers},
	{Name: "*.lora_a", Effect: Refused, Reason: "adapters are not computed here", Source: converter + ", " + ollama},
	{Name: "*.lora_b", Effect: Refused, Reason: "adapters are not computed here", Source: converter + ", " + ollama},
	{Name: "*.input_scale", Effect: Refused, Reason: "scales of activations are not computed here", Source: quantizers},
	{Name: "*scale", Effect: Refused, Reason: "a factor of a weight that is not multiplied here", Source: quantizers},
	{Name: "*scales", Effect: Refused, Reason: "a factor of a weight that is not multiplied here", Source: quantizers},
	{Name: "*scale_inv", Effect: Refused, Reason: "a factor of a weight that is not multiplied here", Source: quantizers},
	{Name: "*scale_2", Effect: Refused, Reason: "a factor of a weight that is not multiplied here", Source: quantizers},
	{Name: "*zeros", Effect: Refused, Reason: "zero points of a weight that are not computed here", Source: quantizers},
	{Name: "*.g_idx", Effect: Refused, Reason: "an order of columns that is not computed here", Source: quantizers},
	{Name: "*.bias", Effect: Refused, Reason: "a bias that this architecture does not have", Source: converter},
}
