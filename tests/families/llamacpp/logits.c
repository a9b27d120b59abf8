/* Prints the logits that llama.cpp computes for every position of a prompt, in F32 with an F32 cache: raw floats,
 * [positions, vocabulary]. Usage: logits MODEL.gguf CONTEXT ID... */
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

static void silent(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    llama_log_set(silent, NULL);
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model)
        return 1;
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)atoi(argv[2]);
    p.n_batch = p.n_ubatch = 64;
    p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *ctx = llama_init_from_model(model, p);
    int n = argc - 3, vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (!ctx)
        return 1;
    struct llama_batch batch = llama_batch_init(n, 0, 1);
    for (int i = 0; i < n; i++) {
        batch.token[i] = atoi(argv[3 + i]);
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = n;
    if (llama_decode(ctx, batch))
        return 1;
    for (int i = 0; i < n; i++)
        fwrite(llama_get_logits_ith(ctx, i), sizeof(float), (size_t)vocab, stdout);
    return 0;
}
