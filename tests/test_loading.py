"""The unpacked checkpoint loads with transformers on this torch."""


def test_the_tokenizer_and_the_configuration_load(checkpoint):
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(checkpoint)
    assert (config.num_hidden_layers, config.num_key_value_heads, config.vocab_size) == (30, 3, 49152)
    assert (config.eos_token_id, config.pad_token_id, config.rope_parameters["rope_theta"]) == (2, 2, 100000.0)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    assert tokenizer("Hello, world")["input_ids"] == [19556, 28, 905]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
