package arch

// Kept is what the files of an architecture do not state of what its layers keep. Where a key states it, the key counts.
type Kept struct {
	Window   int  // attention.sliding_window
	Period   int  // attention.sliding_window_pattern: every n-th layer sees everything; 0: the pattern is not read, all layers have the window
	Own      int  // so many of the first layers have caches, the others share theirs: attention.shared_kv_layers; 0: all
	Interval int  // full_attention_interval: every n-th layer attends, the others are recurrent; 0: all attend
	State    bool // layers without heads are recurrent
	Beside   bool // and so are those with heads
	Single   bool // a layer attends, or is recurrent, or has a feed-forward part: only one of them
}

// measured holds what Measure knows of architectures that are no Family. Those that state everything have an empty row.
// Sources: the papers of the models and the constants of llama.cpp.
var measured = map[string]Kept{
	"mistral3": {}, "qwen2moe": {}, "qwen3moe": {}, "phi2": {}, "phimoe": {}, "granitemoe": {}, "starcoder2": {}, "stablelm": {},
	"gemma3n": {Period: 5, Own: 20},
	"gemma4":  {Period: 6},
	"cohere2": {Period: 4},
	"gpt-oss": {Period: 2},
	"llama4":  {Window: 8192, Period: 4}, // a chunk is at most as far as a window

	"deepseek2": {}, // latent attention where attention.key_length_mla is stated

	// attention.head_count_kv is 0 in recurrent layers.
	"lfm2": {State: true}, "lfm2moe": {State: true}, "granitehybrid": {State: true}, "jamba": {State: true},
	"mamba": {State: true}, "mamba2": {State: true},
	"nemotron_h": {State: true, Single: true},
	"qwen3next":  {State: true, Interval: 4}, "qwen35": {State: true, Interval: 4}, "qwen35moe": {State: true, Interval: 4},
	"falcon-h1": {State: true, Beside: true},
}

// keptBy is what the layers of an architecture keep. known is false if nothing is known of it.
func keptBy(architecture string) (k Kept, known bool) {
	if f, ok := FamilyOf(architecture); ok {
		return f.Kept, true
	}
	k, known = measured[architecture]
	return k, known
}

// facts is the rows of the keys that a family reads for what it keeps.
func (k Kept) facts() (all Facts) {
	if k.Period > 0 {
		all = append(all, Fact{Name: "attention.sliding_window_pattern", Effect: Read, Default: float64(k.Period),
			Reason: "n: every n-th layer has full attention; or an array that says for each layer whether it has the window", Source: converter + ", " + ollama})
	}
	if k.Window > 0 {
		all = append(all, Fact{Name: "attention.sliding_window", Effect: Read, Default: float64(k.Window),
			Reason: "number of positions that a position attends to, itself included; 0: all", Source: converter})
	}
	return all
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
