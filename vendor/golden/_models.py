"""Tiny models of transformers by architecture, with random weights: what `models.py` records and the tests run.

Each function of `ARCHITECTURES` gives a model's class, its configuration and the arguments of one call.
"""

import hashlib
import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers as tf

SEED = 0
# Values kept of each result.
SAMPLES = 24
# Parameters that are computed: the last digit of a logarithm, a sine or a norm depends on the mathematical library.
COMPUTED = ("embed_positions.weight", "dt_proj.bias", "A_log", "dt_bias", "original0")

ARCHITECTURES = {}


def architecture(function):
    """Enters a function into the table."""
    ARCHITECTURES[function.__name__] = function
    return function


def ids(length=7, rows=2, shift=0):
    """Token ids below 60 (and `shift`)."""
    return torch.tensor([[((i * length + j) * 7 + 3) % 60 + shift for j in range(length)] for i in range(rows)])


def ramp(*shape):
    """Values in [-1, 1) that repeat after 97 elements."""
    return torch.tensor([i % 97 / 48.5 - 1 for i in range(math.prod(shape))]).view(*shape)


TEXT = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {**TEXT, "num_key_value_heads": 2}
SEQUENCES = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
IMAGE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
}


@architecture
def llama():
    """llama"""
    return tf.LlamaForCausalLM, tf.LlamaConfig(**GROUPED), dict(input_ids=ids())


@architecture
def qwen2():
    """qwen2"""
    return tf.Qwen2ForCausalLM, tf.Qwen2Config(**GROUPED), dict(input_ids=ids())


@architecture
def qwen3():
    """qwen3"""
    return tf.Qwen3ForCausalLM, tf.Qwen3Config(**GROUPED, head_dim=8), dict(input_ids=ids())


@architecture
def gpt2():
    """gpt2"""
    return (
        tf.GPT2LMHeadModel,
        tf.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32),
        dict(input_ids=ids()),
    )


@architecture
def bert():
    """bert"""
    return (
        tf.BertForMaskedLM,
        tf.BertConfig(**TEXT, max_position_embeddings=32),
        dict(input_ids=ids(), attention_mask=torch.tensor([[1] * 7, [1] * 5 + [0] * 2])),
    )


@architecture
def vit():
    """vit"""
    return tf.ViTForImageClassification, tf.ViTConfig(**IMAGE, num_labels=5), dict(pixel_values=ramp(1, 3, 16, 16))


@architecture
def whisper():
    """whisper"""
    return (
        tf.WhisperForConditionalGeneration,
        tf.WhisperConfig(
            **SEQUENCES,
            num_mel_bins=8,
            max_source_positions=16,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
        ),
        dict(input_features=ramp(1, 8, 32), decoder_input_ids=ids(5, 1)),
    )


@architecture
def mixtral():
    """mixtral"""
    return (
        tf.MixtralForCausalLM,
        tf.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2),
        dict(input_ids=ids()),
    )


@architecture
def mamba():
    """mamba"""
    return (
        tf.MambaForCausalLM,
        tf.MambaConfig(vocab_size=64, hidden_size=32, state_size=8, num_hidden_layers=2),
        dict(input_ids=ids()),
    )


@architecture
def gemma2():
    """gemma2"""
    return tf.Gemma2ForCausalLM, tf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4), dict(input_ids=ids())


@architecture
def gemma3():
    """gemma3"""
    return tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**GROUPED, head_dim=8, sliding_window=4), dict(input_ids=ids())


@architecture
def phi3():
    """phi3"""
    return tf.Phi3ForCausalLM, tf.Phi3Config(**GROUPED, pad_token_id=0), dict(input_ids=ids())


@architecture
def mistral():
    """mistral"""
    return tf.MistralForCausalLM, tf.MistralConfig(**GROUPED, sliding_window=4), dict(input_ids=ids())


@architecture
def gpt_neox():
    """gpt_neox"""
    return tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig(**TEXT), dict(input_ids=ids())


@architecture
def opt():
    """opt"""
    return (
        tf.OPTForCausalLM,
        tf.OPTConfig(
            vocab_size=64,
            hidden_size=32,
            ffn_dim=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
            word_embed_proj_dim=32,
        ),
        dict(input_ids=ids()),
    )


@architecture
def bloom():
    """bloom"""
    return (
        tf.BloomForCausalLM,
        tf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4),
        dict(input_ids=ids()),
    )


@architecture
def falcon():
    """falcon"""
    return (
        tf.FalconForCausalLM,
        tf.FalconConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        dict(input_ids=ids()),
    )


@architecture
def t5():
    """t5"""
    return (
        tf.T5ForConditionalGeneration,
        tf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0),
        dict(input_ids=ids(), decoder_input_ids=ids(4)),
    )


@architecture
def bart():
    """bart"""
    return (
        tf.BartForConditionalGeneration,
        tf.BartConfig(**SEQUENCES, max_position_embeddings=32),
        dict(input_ids=ids(), decoder_input_ids=ids(4)),
    )


@architecture
def distilbert():
    """distilbert"""
    return (
        tf.DistilBertForMaskedLM,
        tf.DistilBertConfig(vocab_size=64, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=32),
        dict(input_ids=ids()),
    )


@architecture
def roberta():
    """roberta"""
    return tf.RobertaForMaskedLM, tf.RobertaConfig(**TEXT, max_position_embeddings=32), dict(input_ids=ids(shift=2))


@architecture
def deberta_v2():
    """deberta_v2"""
    return (
        tf.DebertaV2ForMaskedLM,
        tf.DebertaV2Config(
            **TEXT,
            max_position_embeddings=32,
            relative_attention=True,
            position_buckets=8,
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
        ),
        dict(input_ids=ids()),
    )


@architecture
def electra():
    """electra"""
    return (
        tf.ElectraForMaskedLM,
        tf.ElectraConfig(**TEXT, embedding_size=16, max_position_embeddings=32),
        dict(input_ids=ids()),
    )


@architecture
def albert():
    """albert"""
    return (
        tf.AlbertForMaskedLM,
        tf.AlbertConfig(**TEXT, embedding_size=16, max_position_embeddings=32),
        dict(input_ids=ids()),
    )


@architecture
def modernbert():
    """modernbert"""
    return (
        tf.ModernBertForMaskedLM,
        tf.ModernBertConfig(
            **TEXT, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=4
        ),
        dict(input_ids=ids()),
    )


@architecture
def xlnet():
    """xlnet"""
    return (
        tf.XLNetLMHeadModel,
        tf.XLNetConfig(vocab_size=64, d_model=32, n_layer=2, n_head=4, d_inner=64),
        dict(input_ids=ids()),
    )


@architecture
def clip():
    """clip"""
    t = dict(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16,
        eos_token_id=2,
        bos_token_id=1,
    )
    v = dict(**IMAGE)
    return (
        tf.CLIPModel,
        tf.CLIPConfig(text_config=t, vision_config=v, projection_dim=16),
        dict(input_ids=ids(), pixel_values=ramp(1, 3, 16, 16)),
    )


@architecture
def siglip():
    """siglip"""
    t = dict(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16,
    )
    v = dict(**IMAGE)
    return (
        tf.SiglipModel,
        tf.SiglipConfig(text_config=t, vision_config=v),
        dict(input_ids=ids(), pixel_values=ramp(1, 3, 16, 16)),
    )


@architecture
def wav2vec2():
    """wav2vec2"""
    return (
        tf.Wav2Vec2ForCTC,
        tf.Wav2Vec2Config(
            vocab_size=16,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            conv_dim=(16, 16),
            conv_stride=(4, 2),
            conv_kernel=(8, 3),
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=4,
            num_feat_extract_layers=2,
        ),
        dict(input_values=ramp(1, 320)),
    )


@architecture
def swin():
    """swin"""
    return (
        tf.SwinForImageClassification,
        tf.SwinConfig(
            image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, num_labels=5
        ),
        dict(pixel_values=ramp(1, 3, 32, 32)),
    )


@architecture
def convnext():
    """convnext"""
    return (
        tf.ConvNextForImageClassification,
        tf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5, image_size=32),
        dict(pixel_values=ramp(1, 3, 32, 32)),
    )


@architecture
def resnet():
    """resnet"""
    return (
        tf.ResNetForImageClassification,
        tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5),
        dict(pixel_values=ramp(1, 3, 32, 32)),
    )


@architecture
def segformer():
    """segformer"""
    return (
        tf.SegformerForSemanticSegmentation,
        tf.SegformerConfig(
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[8, 16],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
            num_labels=5,
        ),
        dict(pixel_values=ramp(1, 3, 32, 32)),
    )


@architecture
def mobilenet_v2():
    """mobilenet_v2"""
    return (
        tf.MobileNetV2ForImageClassification,
        tf.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=5),
        dict(pixel_values=ramp(1, 3, 32, 32)),
    )


@architecture
def dinov2():
    """dinov2"""
    return (
        tf.Dinov2Model,
        tf.Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4),
        dict(pixel_values=ramp(1, 3, 16, 16)),
    )


@architecture
def mamba2():
    """mamba2"""
    return (
        tf.Mamba2ForCausalLM,
        tf.Mamba2Config(
            vocab_size=64,
            hidden_size=32,
            state_size=8,
            num_hidden_layers=2,
            num_heads=8,
            head_dim=8,
            expand=2,
            n_groups=2,
            chunk_size=4,
        ),
        dict(input_ids=ids()),
    )


@architecture
def longformer():
    """longformer"""
    return (
        tf.LongformerForMaskedLM,
        tf.LongformerConfig(**TEXT, attention_window=4, max_position_embeddings=40),
        dict(input_ids=ids(8)),
    )


@architecture
def qwen3_moe():
    """qwen3_moe"""
    return (
        tf.Qwen3MoeForCausalLM,
        tf.Qwen3MoeConfig(**GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
        dict(input_ids=ids()),
    )


@architecture
def gpt_oss():
    """gpt_oss"""
    return (
        tf.GptOssForCausalLM,
        tf.GptOssConfig(**GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
        dict(input_ids=ids()),
    )


@architecture
def deepseek_v3():
    """deepseek_v3"""
    return (
        tf.DeepseekV3ForCausalLM,
        tf.DeepseekV3Config(
            **TEXT,
            num_key_value_heads=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            n_group=2,
            topk_group=1,
            kv_lora_rank=16,
            q_lora_rank=16,
            qk_rope_head_dim=8,
            v_head_dim=8,
            qk_nope_head_dim=8,
            first_k_dense_replace=1,
        ),
        dict(input_ids=ids()),
    )


def build(name):
    """The model with its first weights, in eval mode, and the arguments of its call."""
    cls, config, inputs = ARCHITECTURES[name]()
    torch.manual_seed(SEED)
    return cls(config).eval(), inputs


def digest(model):
    """The hash of all drawn parameters and buffers, and the sums of those that are computed."""
    state, computed = hashlib.sha256(), {}
    for name, value in model.state_dict().items():
        if name.endswith(COMPUTED):
            computed[name] = value.double().sum().item()
        else:
            state.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            state.update(repr(value.flatten().tolist()).encode())
    return state.hexdigest()[:16], computed


def flatten(result):
    """The tensors of a result in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = result.values()
    elif not isinstance(result, list | tuple):
        return []
    return [tensor for part in result for tensor in flatten(part)]


def run(model, inputs, dtype=torch.float32):
    """The results of one call without a graph."""
    cast = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    with torch.no_grad():
        return flatten(dict(model.to(dtype)(**cast)))


def sample(tensor):
    """Some elements, evenly spread."""
    flat = tensor.double().flatten()
    return flat[:: max(1, -(-flat.numel() // SAMPLES))].tolist()
