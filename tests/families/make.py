"""Makes the fixtures of this folder: tiny random models of each family as GGUF files, and what other programs compute with
them. It runs by hand, in a virtual environment of its own:

    python3 -m venv VENV && VENV/bin/pip install 'mlx[cpu]' mlx-lm transformers torch gguf sentencepiece
    VENV/bin/python make.py --llama SOURCE --build BUILD [NAME ...]

SOURCE is llama.cpp as the source package of llama-cpp-python holds it (vendor/llama.cpp), BUILD a static build of it. Names,
shapes and orders of the tensors come from its converter, weights are exact in F16. Logits are those of every position of
one prompt, in F32, by transformers, mlx-lm and llama.cpp; the two that are closest to each other are stored. index.json says
which, with their versions, and which metadata or weights switch off a feature. Where programs disagree, "why" says which is right.
"""

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
VOCAB = 96
PROMPT = [1] + np.random.RandomState(7).randint(3, VOCAB, 47).tolist()

# What all configurations have. The context is longer than the prompt.
BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, attention_bias=False, torch_dtype="float32")

ROPE3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
ODD = dict(num_attention_heads=6, num_key_value_heads=3)


def longrope(dims):
    return dict(type="longrope", rope_type="longrope", short_factor=[1.0 + 0.1 * i for i in range(dims // 2)], long_factor=[2.0 + 0.7 * i for i in range(dims // 2)])


def ones(*names):
    return dict(ones=[f"blk.*.{n}.weight" for n in names])


def zeros(*names):
    return dict(zeros=[f"blk.*.{n}.bias" for n in names])


# A fixture: the class of transformers, the model type, what differs from BASE, and how each feature is switched off: by
# metadata of the GGUF file (key without prefix: value), by norms of ones or by biases of zeros.
FIXTURES = {
    "llama": ("LlamaForCausalLM", "llama", dict(ODD, seed=1, hidden_size=96, rope_scaling=ROPE3), {
        "scaled frequencies": dict(ones=["rope_freqs.weight"]), "rotation": {"set": {"rope.freq_base": 1e9}}}),
    "mistral": ("MistralForCausalLM", "mistral", dict(sliding_window=12, by=["transformers"], why="llama.cpp and mlx-lm ignore the window, with which the model was trained"), {"window": {"set": {"attention.sliding_window": 0}}}),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3", dict(seed=1, num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4, tie_word_embeddings=True,
        use_sliding_window=False, sliding_window=None), {"rotation": {"set": {"rope.freq_base": 1e9}}}),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", dict(tie_word_embeddings=True, num_attention_heads=4, use_sliding_window=False), {
        "biases": zeros("attn_q", "attn_k", "attn_v")}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", dict(ODD, head_dim=32, use_sliding_window=False), {"norms of queries and keys": ones("attn_q_norm", "attn_k_norm")}),
    "gemma": ("GemmaForCausalLM", "gemma", dict(hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
        num_attention_heads=4, num_key_value_heads=1, head_dim=32, by=["transformers"], why="mlx-lm takes the exact GELU; llama.cpp looks the tanh form up in a table of F16"), {"rotation": {"set": {"rope.freq_base": 1e9}}}),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", dict(hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True, num_attention_heads=4, head_dim=32, sliding_window=12,
        attn_logit_softcapping=8.0, final_logit_softcapping=30.0, query_pre_attn_scalar=32, num_hidden_layers=4, by=["transformers"],
        why="mlx-lm ignores the window; llama.cpp looks the tanh form of GELU up in a table of F16"), {
        "window": {"set": {"attention.sliding_window": 0}}, "softcap of scores": {"set": {"attn_logit_softcapping": 0.0}},
        "softcap of logits": {"set": {"final_logit_softcapping": 0.0}}, "norms behind": ones("post_attention_norm", "post_ffw_norm")}),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text", dict(hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True, num_attention_heads=4, head_dim=32, sliding_window=12,
        query_pre_attn_scalar=32, num_hidden_layers=4, sliding_window_pattern=3, rope_theta=1e6, rope_local_base_freq=1e4,
        rope_scaling=dict(rope_type="linear", factor=8.0),
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]), {
        "window": {"set": {"attention.sliding_window": 0}}, "base of windows": {"set": {"rope.freq_base_swa": 1e6}},
        "scaling": {"set": {"rope.scaling.factor": 1.0}}, "norms of queries and keys": ones("attn_q_norm", "attn_k_norm")}),
    "phi3": ("Phi3ForCausalLM", "phi3", dict(max_position_embeddings=128, original_max_position_embeddings=32, rope_scaling=longrope(16), sliding_window=None,
        num_attention_heads=4, num_key_value_heads=2), {
        "long factors": dict(ones=["rope_factors_long.weight"]), "factor of attention": {"set": {"rope.scaling.attn_factor": 1.0}}}),
    "phi4-mini": ("Phi3ForCausalLM", "phi3", dict(max_position_embeddings=512, original_max_position_embeddings=256, rope_scaling=longrope(12), sliding_window=None,
        partial_rotary_factor=0.75, tie_word_embeddings=True, num_attention_heads=4, num_key_value_heads=2, context=256,
        why="mlx-lm always takes the long factors; the short ones are for sequences within the first context"), {
        "short factors": dict(ones=["rope_factors_short.weight"])}),
    "olmo2": ("Olmo2ForCausalLM", "olmo2", dict(num_attention_heads=4), {
        "norms of queries and keys": ones("attn_q_norm", "attn_k_norm"), "norms behind": ones("post_attention_norm", "post_ffw_norm")}),
    "olmo3": ("Olmo3ForCausalLM", "olmo3", dict(num_attention_heads=4, num_hidden_layers=4, sliding_window=12, rope_theta=500000.0,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, attention_factor=1.1386294361119891),
        layer_types=["sliding_attention"] * 3 + ["full_attention"]), {
        "window": {"set": {"attention.sliding_window": 0}}, "scaling": {"set": {"rope.scaling.type": "none"}}}),
    "granite": ("GraniteForCausalLM", "granite", dict(num_attention_heads=4, attention_multiplier=0.5, embedding_multiplier=3.0, residual_multiplier=0.4,
        logits_scaling=2.0, tie_word_embeddings=True, mlp_bias=False), {
        "scale of scores": {"set": {"attention.scale": 0.25}}, "scale of embeddings": {"set": {"embedding_scale": 1.0}},
        "scale of sums": {"set": {"residual_scale": 1.0}}, "scale of logits": {"set": {"logit_scale": 1.0}}}),
    "glm4": ("Glm4ForCausalLM", "glm4", dict(attention_bias=True, partial_rotary_factor=0.5), {
        "biases": zeros("attn_q", "attn_k", "attn_v"), "part that rotates": {"set": {"rope.dimension_count": 16}},
        "norms behind": ones("post_attention_norm", "post_ffw_norm")}),
    "exaone4": ("Exaone4ForCausalLM", "exaone4", dict(num_attention_heads=4, num_hidden_layers=4, sliding_window=12, sliding_window_pattern="LLLG", rope_scaling=ROPE3,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        why="llama.cpp knows the windows of the model of 64 layers only"), {
        "window": {"set": {"attention.sliding_window": 0}}, "scaled frequencies": dict(ones=["rope_freqs.weight"]),
        "norms of queries and keys": ones("attn_q_norm", "attn_k_norm")}),
}


def randomize(model, seed):
    """Weights that F16 holds exactly, so large that every part of the model matters."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = torch.randn(p.shape, generator=random)
            if "norm" in name:
                x = 0.3 * x + p.mean()  # around 0 or 1, as the family has it
            elif p.dim() == 1:
                x = 0.5 * x
            elif "embed_tokens" in name or "lm_head" in name:  # rows of different lengths: the best token is seldom close to the second
                x = 0.2 * x * torch.exp(1.5 * torch.randn(p.shape[0], 1, generator=random))
            else:
                x = 0.9 * x / p.shape[1] ** 0.5
            p.copy_(x.half().float())


def with_transformers(model):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].float().numpy()


def with_mlx(folder):
    import mlx.core as mx
    from mlx_lm.utils import load_model

    mx.set_default_device(mx.cpu)
    model, _ = load_model(folder, lazy=False)
    return np.array(model(mx.array([PROMPT]))[0].astype(mx.float32))


def convert(folder, out, ftype, extra):
    import gguf
    from conversion import get_model_class

    hf = json.loads((folder / "config.json").read_text())["architectures"][0]
    base = get_model_class(hf)

    class Tiny(base):  # the file's class, with a vocabulary of its own
        model_arch = base.model_arch

        def set_vocab(self):
            w = self.gguf_writer
            tokens = ["<unk>", "<s>", "</s>"] + [chr(33 + i) for i in range(VOCAB - 3)]
            w.add_tokenizer_model("llama")
            w.add_token_list(tokens)
            w.add_token_scores([0.0] * 3 + [-float(i) for i in range(VOCAB - 3)])
            w.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
            w.add_bos_token_id(1)
            w.add_eos_token_id(2)
            w.add_unk_token_id(0)
            w.add_add_space_prefix(False)
            for key, value in extra.items():
                getattr(w, key)(value)

    with torch.inference_mode():
        Tiny(folder, getattr(gguf.LlamaFileType, ftype), out, eager=True, model_name="tiny").write()


def with_llama(program, path, context):
    done = subprocess.run([program, str(path), str(context), *map(str, PROMPT)], capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-300:] or f"exit {done.returncode}")
    return np.frombuffer(done.stdout, np.float32).reshape(len(PROMPT), -1)


def make(name, program):
    hf, kind, other, off = FIXTURES[name]
    other = dict(other)
    context, chosen, why = other.pop("context", 128), other.pop("by", None), other.pop("why", "")
    seed = other.pop("seed", 0)  # another one where two best tokens happened to be too close for 8 bits
    config = dict(BASE, **other, architectures=[hf], model_type=kind)
    from transformers import AutoConfig, AutoModelForCausalLM
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        vocab = {str(i): i for i in range(VOCAB)}  # counted by a converter, else unused
        (folder / "tokenizer.json").write_text(json.dumps(dict(model=dict(vocab=vocab), added_tokens=[])))
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager").float()
        randomize(model, sum(map(ord, name)) + seed)
        tied = config["tie_word_embeddings"]
        save_file({k: v.contiguous() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}, folder / "model.safetensors", {"format": "pt"})
        extra = {}
        if name == "mistral":  # the converter leaves the window out
            extra["add_sliding_window"] = config["sliding_window"]
        if name == "gemma3":  # not every sixth layer, but those of layer_types
            extra["add_sliding_window_pattern"] = [t == "sliding_attention" for t in config["layer_types"]]
        convert(folder, folder / "f32.gguf", "ALL_F32", extra)
        convert(folder, HERE / f"{name}.gguf", "MOSTLY_F16", extra)
        found, failed = {}, {}
        for by, compute in [("transformers", lambda: with_transformers(model)), ("mlx-lm", lambda: with_mlx(folder)),
                            ("llama.cpp", lambda: with_llama(program, folder / "f32.gguf", context))]:
            try:
                found[by] = compute()
            except Exception as e:  # the program does not have the family, or cannot run it here
                failed[by] = f"{type(e).__name__}: {str(e).strip().splitlines()[-1][:200] if str(e).strip() else ''}"
    pairs = sorted((float(np.abs(found[a] - found[b]).max() / np.abs(found[a]).max()), a, b) for a in found for b in found if a < b)
    chosen = chosen or (pairs[0][1:] if pairs else tuple(found))
    for old in HERE.glob(f"{name}.*.f32"):
        old.unlink()
    for by in chosen:
        found[by].astype("<f4").tofile(HERE / f"{name}.{by}.f32")
    print(f"{name:10} largest {max(np.abs(f).max() for f in found.values()):8.3f}", *[f"{a}/{b} {d:.1e}" for d, a, b in pairs], failed or "")
    return dict(architecture=kind, context=context, by=list(chosen), differences={f"{a} and {b}": float(f"{d:.1e}") for d, a, b in pairs}, why=why, failed=failed, off=off)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama", type=Path, required=True)
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    sys.path[:0] = [str(a.llama), str(a.llama / "gguf-py")]
    program = Path(tempfile.gettempdir()) / "families-logits"
    libs = [a.build / "src/libllama.a", *(a.build / "ggml/src" / f"libggml{x}.a" for x in ["", "-cpu", "-base"])]
    subprocess.run(["gcc", "-O1", "-I", a.llama / "include", "-I", a.llama / "ggml/include", HERE / "llamacpp/logits.c", *libs, "-lstdc++", "-lm", "-lpthread", "-fopenmp", "-o", program], check=True)
    index = HERE / "index.json"
    old = json.loads(index.read_text()) if index.exists() else {"fixtures": {}}
    fixtures = old["fixtures"]
    for name in a.names or FIXTURES:
        try:
            fixtures[name] = make(name, program)
        except Exception as e:
            if a.names:
                raise
            print(f"{name}: {type(e).__name__}: {e}")
    versions = {n: importlib.metadata.version(n) for n in ["transformers", "torch", "mlx-lm", "mlx", "gguf"]}
    versions["llama.cpp"] = "llama-cpp-python 0.3.36"
    index.write_text(json.dumps(dict(prompt=PROMPT, versions=versions, fixtures=dict(sorted(fixtures.items()))), indent=1) + "\n")


if __name__ == "__main__":
    main()
