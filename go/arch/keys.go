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
	{Name: "block_count", Effect: Read, Reason: "number of layers", Source: spec},
	{Name: "context_length", Effect: Read, Reason: "context length of the training; default for the maximum sequence length and for YaRN's original context length", Source: spec},
	{Name: "embedding_length", Effect: Read, Reason: "width of the residual stream", Source: spec},
	{Name: "feed_forward_length", Effect: Read, Reason: "width of the feed-forward part: one value for all layers, or one per layer", Source: spec},
	{Name: "vocab_size", Effect: Read, Default: "number of tokens in the vocabulary, else rows of the embedding table", Reason: "number of rows of the embedding table", Source: spec},
	{Name: "attention.head_count", Effect: Read, Reason: "number of query heads: one value for all layers, or one per layer", Source: spec},
	{Name: "attention.head_count_kv", Effect: Read, Default: "attention.head_count", Reason: "number of key-value heads", Source: spec},
	{Name: "attention.key_length", Aliases: []string{"attention.head_dim"}, Effect: Read, Default: ofWidth, Reason: "width of a query or key head", Source: spec + "; the other name: " + ollama},
	{Name: "attention.value_length", Effect: Read, Default: "attention.key_length", Reason: "width of a value head", Source: spec},
	{Name: "attention.layer_norm_rms_epsilon", Effect: Read, Reason: "epsilon of the RMS norms; there is no default", Source: spec},
	{Name: "attention.sliding_window", Effect: Read, Default: 0.0, Reason: "number of positions that a position attends to, itself included; 0: all", Source: converter},
	{Name: "attention.scale", Effect: Read, Default: "1 / √attention.key_length", Reason: "scale of the product of query and key", Source: converter},
	{Name: "attn_logit_softcapping", Effect: Read, Default: 0.0, Reason: "softcap of attention scores; 0: none", Source: converter},
	{Name: "final_logit_softcapping", Effect: Read, Default: 0.0, Reason: "softcap of logits; 0: none", Source: converter},

	{Name: "rope.dimension_count", Effect: Read, Default: "attention.key_length", Reason: "number of elements of a head that are rotated", Source: spec},
	{Name: "rope.scaling.type", Effect: Read, Default: "linear", Reason: "none, linear or yarn; other types are refused", Source: spec},
	{Name: "rope.scaling.factor", Aliases: []string{"rope.scale_linear"}, Effect: Read, Default: 1.0, Reason: "positions are divided by this factor; 0 means 1", Source: spec},
	{Name: "rope.scaling.attn_factor", Effect: Read, Default: 1.0, Reason: "the sine and cosine of the rotation are multiplied by this factor", Source: spec},
	{Name: "rope.scaling.original_context_length", Effect: Read, Default: "context_length", Reason: "YaRN: context length before scaling", Source: spec},
	{Name: "rope.scaling.yarn_ext_factor", Aliases: []string{"rope.scaling.extrapolation_factor"}, Effect: Read, Default: 1.0, Reason: "YaRN: extrapolation factor", Source: converter + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_beta_fast", Aliases: []string{"rope.scaling.beta_fast"}, Effect: Read, Default: 32.0, Reason: "YaRN: dimensions with at least this number of rotations keep their frequency", Source: yarnPaper + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_beta_slow", Aliases: []string{"rope.scaling.beta_slow"}, Effect: Read, Default: 1.0, Reason: "YaRN: dimensions with at most this number of rotations are fully scaled", Source: yarnPaper + "; the other name: " + ollama},
	{Name: "rope.scaling.yarn_attn_factor", Effect: Read, Default: "1 + 0.1·ln(rope.scaling.factor)", Reason: "YaRN: attention factor; values other than the default are refused, since writers disagree on whether they replace or multiply the default", Source: converter},
}

// otherDesigns is keys of designs that no family here has, unless a row of its own stands before.
var otherDesigns = slices.Concat(Facts{
	{Name: "attention.causal", Effect: Refused, Usual: []any{true}, Reason: "bidirectional attention is not supported", Source: converter},
	{Name: "attention.max_alibi_bias", Effect: Refused, Usual: []any{0.0}, Reason: "linear attention biases (ALiBi) are not supported", Source: spec},
	{Name: "attention.clamp_kqv", Effect: Refused, Usual: []any{0.0}, Reason: "clamping of queries, keys and values is not supported", Source: spec},
	{Name: "attention.output_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "scaling of the attention output is not supported", Source: converter},
	{Name: "attention.value_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "scaling of values is not supported", Source: converter},
	{Name: "attention.temperature_*", Effect: Refused, Usual: []any{0.0}, Reason: "position-dependent scaling of attention scores is not supported", Source: converter},
	{Name: "attention.relative_buckets_count", Effect: Refused, Usual: []any{0.0}, Reason: "relative attention biases are not supported", Source: converter},
	{Name: "attention.sliding_window_pattern", Effect: Refused, Usual: []any{1.0}, Reason: "this architecture has no pattern of sliding windows", Source: converter},
	{Name: "attention.key_length_*", Effect: Refused, Usual: []any{0.0}, Reason: "head widths that differ between layers, and latent heads, are not supported", Source: converter},
	{Name: "attention.value_length_*", Effect: Refused, Usual: []any{0.0}, Reason: "head widths that differ between layers, and latent heads, are not supported", Source: converter},
	{Name: "attention.shared_kv_layers", Effect: Refused, Usual: []any{0.0}, Reason: "sharing of keys and values between layers is not supported", Source: converter},
	{Name: "attention.recurrent_layers", Effect: Refused, Usual: []any{0.0, false}, Reason: "recurrent layers are not supported", Source: converter},
	{Name: "attention.rope_pattern", Effect: Refused, Usual: []any{1.0, true}, Reason: "layers without rotary embedding are not supported", Source: converter},
	{Name: "attention.indexer.*", Effect: Refused, Usual: []any{0.0}, Reason: "sparse attention is not supported", Source: converter},
	{Name: "attention.*_lora_rank", Effect: Refused, Usual: []any{0.0}, Reason: "latent projections are not supported", Source: converter},
	{Name: "attention.layer_norm_epsilon", Effect: Harmless, Reason: "epsilon of norms that subtract the mean, which no supported family has; tensors of such norms are refused", Source: converter + ", " + ollama},
	{Name: "attention.group_norm_*", Effect: Refused, Usual: []any{0.0}, Reason: "group norms are not supported", Source: converter},
	{Name: "full_attention_interval", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers with another kind of attention are not supported", Source: converter},
	{Name: "num_loops", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "layers that run several times are not supported", Source: converter},

	{Name: "rope.freq_base_swa", Aliases: []string{"rope.local.freq_base"}, Effect: Refused, Reason: "this architecture has a single rotary base", Source: converter + ", " + ollama},
	{Name: "rope.dimension_count_swa", Effect: Refused, Reason: "different rotary embeddings in some layers are not supported", Source: converter},
	{Name: "rope.dimension_sections", Aliases: []string{"rope.mrope_section"}, Effect: Harmless, Reason: "for text all sections have the same position, so they are one rotation: Wang et al. 2024 (Qwen2-VL), 2.1", Source: converter + ", " + ollama},
	{Name: "rope.scaling.finetuned", Effect: Harmless, Reason: "describes the training, not the computation", Source: spec},
	{Name: "rope.scaling.yarn_log_multiplier", Effect: Refused, Usual: []any{0.0}, Reason: "another scale of attention is not supported", Source: converter},
	{Name: "rope.scaling.alpha", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "a rotary base that grows with the context is not supported", Source: converter},
	{Name: "rope.scaling.mscale*", Effect: Refused, Usual: []any{0.0}, Reason: "another scale of attention is not supported", Source: ollama},
	{Name: "rope.scaling_beta", Effect: Refused, Usual: []any{0.0}, Reason: "position-dependent scaling of attention scores is not supported", Source: ollama},
	{Name: "rope.scaling.low_freq_factor", Effect: Refused, Reason: "frequency factors are read only from the tensor rope_freqs.weight", Source: transformers},
	{Name: "rope.scaling.high_freq_factor", Effect: Refused, Reason: "frequency factors are read only from the tensor rope_freqs.weight", Source: transformers},
	{Name: "rope.scaling.original_max_position_embeddings", Effect: Refused, Reason: "only rope.scaling.original_context_length is read", Source: transformers},

	{Name: "embedding_scale", Effect: Refused, Reason: "the scale of the embedding follows from the architecture", Source: converter},
	{Name: "residual_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "scaling of the residual sum is not supported", Source: converter},
	{Name: "logit_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "scaling of logits is not supported", Source: converter},
	{Name: "router_logit_softcapping", Effect: Refused, Usual: []any{0.0}, Reason: "softcapping of router logits is not supported", Source: converter},
	{Name: "use_parallel_residual", Effect: Refused, Usual: []any{false}, Reason: "attention parallel to the feed-forward part is not supported", Source: spec},
	{Name: "norm_before_*", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not supported", Source: converter},
	{Name: "skip_loop_final_norm", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not supported", Source: converter},
	{Name: "swin_norm", Effect: Refused, Usual: []any{false}, Reason: "norms in other places are not supported", Source: converter},
	{Name: "tensor_data_layout", Effect: Refused, Usual: []any{"reference"}, Reason: "weights in another order than the architecture's are not supported", Source: spec},
	{Name: "activation_sparsity_scale", Effect: Refused, Usual: []any{0.0}, Reason: "sparse activations are not supported", Source: converter},
	{Name: "swiglu_clamp_*", Effect: Refused, Usual: []any{0.0}, Reason: "clamped gated units are not supported", Source: converter},
	{Name: "activation.*", Effect: Refused, Reason: "other activations are not supported", Source: converter},
	{Name: "nextn_predict_layers", Effect: Refused, Usual: []any{0.0}, Reason: "block_count then includes layers that predict further tokens and are not part of the model itself", Source: converter},
	{Name: "leading_dense_block_count", Effect: Refused, Usual: []any{0.0}, Reason: "models in which only some layers have experts are not supported", Source: converter},
	{Name: "interleave_moe_layer_step", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "models in which only some layers have experts are not supported", Source: converter},
	{Name: "moe_every_n_layers", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "models in which only some layers have experts are not supported", Source: converter},
	{Name: "moe_latent_size", Effect: Refused, Usual: []any{0.0}, Reason: "latent experts are not supported", Source: converter},
	{Name: "expert_weights_norm", Effect: Refused, Usual: []any{true}, Reason: "only normalized expert weights are supported", Source: converter},
	{Name: "norm_top_k_prob", Effect: Refused, Usual: []any{true}, Reason: "only normalized expert weights are supported", Source: ollama},
	{Name: "expert_weights_scale", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "scaling of expert weights is not supported", Source: converter},
	{Name: "expert_gating_func", Effect: Refused, Usual: []any{0.0, 1.0}, Reason: "expert gates other than softmax are not supported", Source: converter},
	{Name: "expert_*", Effect: Refused, Usual: []any{0.0}, Reason: "this kind of experts is not supported", Source: converter},
	{Name: "experts_per_group", Effect: Refused, Usual: []any{0.0}, Reason: "this kind of experts is not supported", Source: converter},
	{Name: "adapters.*", Effect: Refused, Usual: []any{0.0}, Reason: "adapters are not supported", Source: converter},
	{Name: "decoder_*", Effect: Refused, Reason: "encoder-decoder models are not supported", Source: converter},
	{Name: "n_deepstack_layers", Effect: Harmless, Reason: "concerns images; only text is computed", Source: converter},
	{Name: "deepstack_mapping", Effect: Harmless, Reason: "concerns images; only text is computed", Source: converter},
	{Name: "embedding_length_per_layer_input", Effect: Refused, Usual: []any{0.0}, Reason: "per-layer embeddings are not supported", Source: converter},
	{Name: "features_length", Effect: Refused, Usual: []any{0.0}, Reason: "inputs other than tokens are not supported", Source: converter},
	{Name: "rescale_every_n_layers", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not supported", Source: spec},
	{Name: "hash_layer_count", Effect: Refused, Usual: []any{0.0}, Reason: "other kinds of layers are not supported", Source: converter},

	{Name: "pooling_type", Effect: Harmless, Reason: "pools hidden states into a text embedding; does not affect logits", Source: converter},
	{Name: "classifier.*", Effect: Harmless, Reason: "concerns other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "dense_*", Effect: Harmless, Reason: "concerns other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "embedding_length_out", Effect: Harmless, Reason: "concerns other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "vision.*", Effect: Harmless, Reason: "concerns images; only text is computed", Source: ollama},
	{Name: "audio.*", Effect: Harmless, Reason: "concerns audio; only text is computed", Source: ollama},
	{Name: "mm.*", Effect: Harmless, Reason: "concerns images; only text is computed", Source: ollama},
	{Name: "*image_token_id", Effect: Harmless, Reason: "concerns images; only text is computed", Source: ollama},
}, layersOfAnotherForm("ssm", "wkv", "kda", "hrm", "ple", "altup", "posnet", "convnext", "shortconv", "hyper_connection", "attn_res"),
	Facts{
		{Name: "time_*_extra_dim", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not supported", Source: converter},
		{Name: "token_shift_count", Effect: Refused, Usual: []any{0.0}, Reason: "recurrent layers are not supported", Source: converter},
	})

func layersOfAnotherForm(names ...string) (all Facts) {
	for _, name := range names {
		all = append(all, Fact{Name: name + ".*", Effect: Refused, Usual: []any{0.0, false}, Reason: "other kinds of layers are not supported", Source: converter})
	}
	return all
}

// activations are the keys by which writers name the function of the feed-forward part; usual are the family's.
func activations(usual ...any) (all Facts) {
	for _, name := range []string{"hidden_activation", "hidden_act", "activation_function"} {
		all = append(all, Fact{Name: name, Effect: Refused, Usual: usual, Reason: "the activation follows from the architecture", Source: converter + ", " + transformers})
	}
	return all
}

// rotaryBase is the row of a family's base.
func rotaryBase(usual float64, source string) Facts {
	return Facts{{Name: "rope.freq_base", Effect: Read, Default: usual, Reason: "rotary base", Source: source}}
}

// localBase is the row of families whose layers with a window may have a base of their own.
var localBase = Facts{{Name: "rope.freq_base_swa", Aliases: []string{"rope.local.freq_base"}, Effect: Read, Default: "rope.freq_base",
	Reason: "rotary base in layers with a sliding window", Source: converter + ", " + ollama}}

// permuted is the row of families whose files hold queries and keys so that neighbors rotate.
var permuted = Facts{
	{Name: "tensor_data_layout", Effect: Refused, Usual: []any{"Meta AI original pth"}, Reason: "only weights of queries and keys with adjacent rotated pairs are supported", Source: spec},
}

// noExperts is the rows of a family without them.
var noExperts = Facts{
	{Name: "expert_count", Effect: Refused, Usual: []any{0.0}, Reason: "this architecture has no experts", Source: converter},
	{Name: "expert_used_count", Effect: Refused, Usual: []any{0.0}, Reason: "this architecture has no experts", Source: converter},
}

// fileKeys is keys of no architecture. Package gguf reads those of parts and alignment.
var fileKeys = Facts{
	{Name: "general.architecture", Effect: Read, Reason: "selects the model family", Source: spec},
	{Name: "general.alignment", Effect: Read, Default: 32.0, Reason: "alignment of tensor data", Source: spec},
	{Name: "split.*", Effect: Read, Default: "single file", Reason: "parts of a split set", Source: converter},
	{Name: "general.type", Effect: Refused, Usual: []any{"model"}, Reason: "files of other types are not complete models", Source: converter},
	{Name: "general.quantization_version", Effect: Refused, Usual: []any{2.0}, Reason: "blocks of other versions have another layout", Source: spec},
	{Name: "adapter.*", Effect: Refused, Reason: "adapters are not supported", Source: converter + ", " + ollama},
	{Name: "general.file_type", Effect: Harmless, Reason: "a summary; the type of each tensor is read instead", Source: spec},
	{Name: "general.tensor_extra.*", Effect: Harmless, Reason: "requires activations of more than 4 bits, which is always the case", Source: converter},
	{Name: "general.sampling.*", Effect: Harmless, Reason: "suggested sampling parameters; the caller sets them", Source: converter},
	{Name: "general.*", Effect: Harmless, Reason: "names, licenses, sources", Source: spec},
	{Name: "clip.*", Effect: Harmless, Reason: "concerns images; only text is computed", Source: converter},
	{Name: "imatrix.*", Effect: Harmless, Reason: "describes how the weights were quantized", Source: converter},
	{Name: "quantize.*", Effect: Harmless, Reason: "describes how the weights were quantized", Source: converter},
	{Name: "skeep.*", Effect: Harmless, Reason: "example prompt", Source: "this project"},
}

// otherTensors is tensors beside those of a family.
var otherTensors = Facts{
	{Name: "v.*", Effect: Harmless, Reason: "concerns images; only text is computed", Source: converter + ", " + ollama},
	{Name: "a.*", Effect: Harmless, Reason: "concerns audio; only text is computed", Source: converter + ", " + ollama},
	{Name: "mm.*", Effect: Harmless, Reason: "concerns images; only text is computed", Source: converter + ", " + ollama},
	{Name: "cls.*", Effect: Harmless, Reason: "computes other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "dense_2.*", Effect: Harmless, Reason: "computes other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "dense_3.*", Effect: Harmless, Reason: "computes other outputs of the last hidden state; does not affect logits", Source: converter},
	{Name: "*.attn_rot_embd.weight", Effect: Harmless, Reason: "rotary frequencies, which follow from the base", Source: "early " + converter},
	{Name: "*.rotary_emb.inv_freq", Effect: Harmless, Reason: "rotary frequencies, which follow from the base", Source: transformers},
	{Name: "*.lora_a", Effect: Refused, Reason: "adapters are not supported", Source: converter + ", " + ollama},
	{Name: "*.lora_b", Effect: Refused, Reason: "adapters are not supported", Source: converter + ", " + ollama},
	{Name: "*.input_scale", Effect: Refused, Reason: "scales of activations are not supported", Source: quantizers},
	{Name: "*scale", Effect: Refused, Reason: "separate scales of weights are not supported", Source: quantizers},
	{Name: "*scales", Effect: Refused, Reason: "separate scales of weights are not supported", Source: quantizers},
	{Name: "*scale_inv", Effect: Refused, Reason: "separate scales of weights are not supported", Source: quantizers},
	{Name: "*scale_2", Effect: Refused, Reason: "separate scales of weights are not supported", Source: quantizers},
	{Name: "*zeros", Effect: Refused, Reason: "separate zero points of weights are not supported", Source: quantizers},
	{Name: "*.g_idx", Effect: Refused, Reason: "permuted columns are not supported", Source: quantizers},
	{Name: "*.bias", Effect: Refused, Reason: "this architecture does not have such a bias", Source: converter},
}
