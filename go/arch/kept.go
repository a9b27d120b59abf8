package arch

// kept is what the files of an architecture do not state of what its layers keep. Where a key states it, the key counts.
type kept struct {
	window   int  // attention.sliding_window
	period   int  // attention.sliding_window_pattern: every so manieth layer sees everything; 0: none does
	own      int  // so many of the first layers have caches, the others share theirs: attention.shared_kv_layers; 0: all
	interval int  // full_attention_interval: every so manieth layer attends, the others are recurrent; 0: all attend
	state    bool // layers without heads are recurrent
	beside   bool // and so are those with heads
	single   bool // a layer attends, or is recurrent, or has a feed-forward part: only one of them
}

// keeps is THE table of architectures whose geometry is known, whether they run here or not. Those that state
// everything have an empty row. Sources: the papers of the models and the constants of llama.cpp.
var keeps = map[string]kept{
	"llama": {}, "mistral3": {}, "smollm3": {}, "qwen2": {}, "qwen2moe": {}, "qwen3": {}, "qwen3moe": {}, "phi2": {}, "phi3": {},
	"phimoe": {}, "gemma": {}, "granite": {}, "granitemoe": {}, "starcoder2": {}, "stablelm": {}, "glm4": {}, "olmo2": {period: 4},
	"gemma2":  {window: 4096, period: 2},
	"gemma3":  {period: 6},
	"gemma3n": {period: 5, own: 20},
	"gemma4":  {period: 6},
	"cohere2": {period: 4},
	"exaone4": {period: 4},
	"gpt-oss": {period: 2},
	"llama4":  {window: 8192, period: 4}, // a chunk is at most as far as a window

	"deepseek2": {}, // latent attention where attention.key_length_mla is stated

	// attention.head_count_kv is 0 in recurrent layers.
	"lfm2": {state: true}, "lfm2moe": {state: true}, "granitehybrid": {state: true}, "jamba": {state: true},
	"mamba": {state: true}, "mamba2": {state: true},
	"nemotron_h": {state: true, single: true},
	"qwen3next":  {state: true, interval: 4}, "qwen35": {state: true, interval: 4}, "qwen35moe": {state: true, interval: 4},
	"falcon-h1": {state: true, beside: true},
}

// sizeKeys is what Measure reads. What an absent key stands for is decided there, and said.
var sizeKeys = func() (all Facts) {
	for _, name := range []string{
		"block_count", "context_length", "embedding_length", "vocab_size", "feed_forward_length", "leading_dense_block_count",
		"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length", "expert_shared_count",
		"attention.head_count", "attention.head_count_kv", "attention.value_length", "attention.key_length_swa", "attention.value_length_swa",
		"attention.key_length_mla", "attention.kv_lora_rank", "attention.sliding_window", "attention.sliding_window_pattern",
		"attention.shared_kv_layers", "attention.recurrent_layers", "full_attention_interval", "rope.dimension_count",
		"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.group_count", "shortconv.l_cache",
	} {
		all = append(all, Fact{Name: name, Effect: Read, Default: "said by Measure"})
	}
	return append(all, Fact{Name: "attention.key_length", Aliases: []string{"attention.head_dim"}, Effect: Read, Default: "said by Measure"})
}()
