// Layer types with weights, normalisation and pooling; residual blocks.
#include "models/layer_types.h"
#include "models/resnet_words.h"
#include "nn/layers.h"

template <>
struct tandem::options::EnumNames<tandem::nn::WeightInit> {
  static inline const auto values = [] {
    std::array<const char*, nn::kWeightInitCount> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = nn::name_of(static_cast<nn::WeightInit>(i));
    return names;
  }();
};

namespace tandem::models {

namespace {

using Inputs = std::span<const Shape>;
using nn::ModulePtr;
using options::Describe;
using options::Rule;

const Rule kPositive{.min = 1, .max = kMaxExtent}, kNotNegative{.min = 0, .max = kMaxExtent};

// The last extent of the input, which `key` must equal if given.
Index last_extent(const char* key, std::optional<Index> given, Inputs inputs) {
  return known_or(key, given, inputs[0].at(-1), 0, "the input has");
}

struct LinearKeys : nn::LinearOptions {
  Index out_features = 0;
  std::optional<Index> in_features;
};

LayerType linear_layer() {
  return layer("linear", "fully connected layer over the last axis",
               Describe<LinearKeys>()
                   .key("out_features", &LinearKeys::out_features, "output features", size_rule(true))
                   .key("bias", of<LinearKeys>(&nn::LinearOptions::bias), "adds a constant to each feature")
                   .key("init", of<LinearKeys>(&nn::LinearOptions::init), "initialiser of the weight")
                   .key("in_features", &LinearKeys::in_features, "input features; inferred", size_rule()),
               [](const LinearKeys& o, Inputs inputs) -> ModulePtr {
                 return std::make_shared<nn::Linear>(last_extent("in_features", o.in_features, inputs),
                                                     o.out_features, o);
               });
}

Index extent(Index given, int) { return given; }
Index extent(const Pair& given, int axis) { return given[static_cast<std::size_t>(axis)]; }

// Options of a convolution over sequences (scalar extents) or images (pairs), with inferred ones added.
template <class Extent, class Layer>
struct ConvKeys : Layer {
  static constexpr int kAxes = std::is_same_v<Extent, Pair> ? 2 : 1;
  Index out_channels = 0;
  Extent kernel{};
  std::optional<Extent> padded = Layer{}.padding;  // absent: "same"
  std::optional<Index> in_channels;

  // "same" keeps the extent of a convolution of stride 1.
  std::string complaint() const {
    for (int axis = 0; !padded && axis < kAxes; ++axis)
      if (reach(axis) % 2 != 0)
        return fmt::format("\"same\" needs an odd kernel, got {}", extent(kernel, axis));
    return "";
  }
  Layer options() const {
    Layer all = *this;
    if (padded) {
      all.padding = *padded;
    } else if constexpr (kAxes == 2) {
      all.padding = {reach(0) / 2, reach(1) / 2};
    } else {
      all.padding = reach(0) / 2;
    }
    return all;
  }

 private:
  Index reach(int axis) const { return extent(this->dilation, axis) * (extent(kernel, axis) - 1); }
};

template <class Keys, class Layer>
Describe<Keys> describe_conv() {
  Rule same = kNotNegative;
  same.keyword = "same";
  Describe<Keys> keys;
  keys.key("out_channels", &Keys::out_channels, "output channels", size_rule(true))
      .key("kernel", &Keys::kernel, "extent of the filter", size_rule(true))
      .key("stride", of<Keys>(&Layer::stride), "step of the filter", kPositive)
      .key("padding", &Keys::padded, "zeros on each side; \"same\" keeps the extent at stride 1", same)
      .key("dilation", of<Keys>(&Layer::dilation), "spacing of the filter's elements", kPositive)
      .key("groups", of<Keys>(&Layer::groups), "number of channel groups, convolved separately", kPositive)
      .key("bias", of<Keys>(&Layer::bias), "adds a constant to each channel")
      .key("init", of<Keys>(&Layer::init), "initialiser of the weight")
      .key("in_channels", &Keys::in_channels, "input channels; inferred", size_rule())
      .rule("padding", [](const Keys& o) { return o.complaint(); });
  return keys;
}

template <class Module>
constexpr auto make_conv = [](const auto& o, Inputs inputs) -> ModulePtr {
  return std::make_shared<Module>(last_extent("in_channels", o.in_channels, inputs), o.out_channels, o.kernel,
                                  o.options());
};

struct EmbeddingKeys {
  Index count = 0, dim = 0;
  std::optional<Index> padding_index;
};

LayerType embedding_layer() {
  return layer("embedding", "embedding table: rows by index",
               Describe<EmbeddingKeys>()
                   .key("count", &EmbeddingKeys::count, "rows of the table", size_rule(true))
                   .key("dim", &EmbeddingKeys::dim, "columns of the table", size_rule(true))
                   .key("padding_index", &EmbeddingKeys::padding_index, "row that stays 0", kNotNegative),
               [](const EmbeddingKeys& o, Inputs) -> ModulePtr {
                 return std::make_shared<nn::Embedding>(o.count, o.dim, o.padding_index);
               });
}

const Rule kEps{.min = 1e-30, .max = 1.0};
constexpr const char* kEpsHelp = "added to the variance";
constexpr const char* kAffineHelp = "learnable scale and shift";

struct BatchNormKeys : nn::BatchNormLayerOptions {
  std::optional<Index> channels;
};

LayerType batch_norm_layer() {
  using Layer = nn::BatchNormLayerOptions;
  LayerType type =
      layer("batch_norm", "batch normalisation; an optional second input is added before the activation",
            Describe<BatchNormKeys>()
                .key("relu", of<BatchNormKeys>(&Layer::relu), "fused ReLU")
                .key("eps", of<BatchNormKeys>(&Layer::eps), kEpsHelp, kEps)
                .key("momentum", of<BatchNormKeys>(&Layer::momentum),
                     "weight of a batch in the running statistics", {.min = 0.0, .max = 1.0})
                .key("affine", of<BatchNormKeys>(&Layer::affine), kAffineHelp)
                .key("zero_gamma", of<BatchNormKeys>(&Layer::zero_gamma), "the scale starts at 0")
                .key("channels", &BatchNormKeys::channels, "input channels; inferred", size_rule()),
            [](const BatchNormKeys& o, Inputs inputs) -> ModulePtr {
              return std::make_shared<nn::BatchNorm>(last_extent("channels", o.channels, inputs), o);
            });
  type.max_inputs = 2;
  return type;
}

struct LayerNormKeys : nn::NormOptions {
  Index axes = 1;
};

ModulePtr make_layer_norm(const LayerNormKeys& o, Inputs inputs) {
  if (o.axes >= inputs[0].rank())
    throw OptionError("axes", fmt::format("the input {} has only {} axes besides the batch",
                                          to_string(inputs[0]), inputs[0].rank() - 1));
  return std::make_shared<nn::LayerNorm>(Shape(inputs[0].extents().last(static_cast<std::size_t>(o.axes))),
                                         o);
}

struct GroupNormKeys : nn::NormOptions {
  Index groups = 0;
};

struct SelfAttentionKeys : nn::SelfAttentionOptions {};

LayerType self_attention_layer() {
  return layer("self_attention", "multi-head self-attention over a sequence [N,T,E]",
               Describe<SelfAttentionKeys>()
                   .key("heads", of<SelfAttentionKeys>(&nn::SelfAttentionOptions::heads),
                        "number of heads; must divide the features", size_rule(true))
                   .key("bias", of<SelfAttentionKeys>(&nn::SelfAttentionOptions::bias),
                        "adds a constant to each feature of the projections")
                   .key("causal", of<SelfAttentionKeys>(&nn::SelfAttentionOptions::causal),
                        "causal mask: an element sees itself and earlier ones")
                   .key("dropout", of<SelfAttentionKeys>(&nn::SelfAttentionOptions::dropout),
                        "dropout probability of attention weights in training", probability_rule()),
               [](const SelfAttentionKeys& o, Inputs inputs) -> ModulePtr {
                 if (inputs[0].rank() != 3)
                   throw OptionError("type", fmt::format("needs a sequence [T,E] for each sample, got {}",
                                                         to_string(inputs[0].without(0))));
                 const Index features = inputs[0].at(-1);
                 if (features % o.heads != 0)
                   throw OptionError("heads",
                                     fmt::format("{} does not divide the {} features", o.heads, features));
                 return std::make_shared<nn::SelfAttention>(features, o);
               });
}

struct DropoutKeys {
  double p = 0.5;
};

struct PoolKeys {
  Pair kernel{};
  std::optional<Pair> stride;
  Pair padding{};
  bool count_include_pad = Pool2dOptions{}.count_include_pad;  // average pooling

  std::string complaint() const {
    for (std::size_t axis = 0; axis < 2; ++axis)
      if (2 * padding[axis] > kernel[axis])
        return fmt::format("{} is more than half the kernel {}", padding[axis], kernel[axis]);
    return "";
  }
  Pool2dOptions options() const { return {kernel, stride.value_or(kernel), padding, count_include_pad}; }
};

Describe<PoolKeys> describe_pool() {
  Describe<PoolKeys> keys;
  keys.key("kernel", &PoolKeys::kernel, "extent of the window", size_rule(true))
      .key("stride", &PoolKeys::stride, "step of the window; default: the kernel's extent", kPositive)
      .key("padding", &PoolKeys::padding, "border on each side", kNotNegative)
      .rule("padding", [](const PoolKeys& o) { return o.complaint(); });
  return keys;
}

struct AdaptivePoolKeys {
  Pair size{};
};

struct GlobalAvgPool2dKeys {};

struct BlockKeys : BlockOptions {
  Index channels = 0;
  std::optional<Index> in_channels;
};

template <class Block>
LayerType block_layer(std::string name, std::string help) {
  return layer(std::move(name), std::move(help),
               Describe<BlockKeys>()
                   .key("channels", &BlockKeys::channels,
                        "inner channels; a bottleneck outputs four times as many", size_rule(true))
                   .key("stride", of<BlockKeys>(&BlockOptions::stride), "step of the block", kPositive)
                   .key("zero_init_residual", of<BlockKeys>(&BlockOptions::zero_init_residual),
                        "the block starts as the identity")
                   .key("shortcut", of<BlockKeys>(&BlockOptions::shortcut), "shortcut when shapes differ")
                   .key("in_channels", &BlockKeys::in_channels, "input channels; inferred", size_rule()),
               [](const BlockKeys& o, Inputs inputs) -> ModulePtr {
                 return std::make_shared<Block>(last_extent("in_channels", o.in_channels, inputs), o.channels,
                                                o);
               });
}

}  // namespace

std::vector<LayerType> weight_layers() {
  using Images = ConvKeys<Pair, nn::ConvOptions>;
  using Sequences = ConvKeys<Index, nn::Conv1dLayerOptions>;
  using Transposed = ConvKeys<Pair, nn::ConvTransposeOptions>;
  auto transposed = describe_conv<Transposed, nn::ConvTransposeOptions>();
  transposed.key("output_padding", of<Transposed>(&nn::ConvTransposeOptions::output_padding),
                 "extra rows and columns at the end", kNotNegative);
  return {linear_layer(),
          layer("conv2d", "convolution of images [N,H,W,C]", describe_conv<Images, nn::ConvOptions>(),
                make_conv<nn::Conv2d>),
          layer("conv1d", "convolution of sequences [N,L,C]",
                describe_conv<Sequences, nn::Conv1dLayerOptions>(), make_conv<nn::Conv1d>),
          layer("conv_transpose2d", "transposed convolution of images", transposed,
                make_conv<nn::ConvTranspose2d>),
          embedding_layer(),
          self_attention_layer()};
}

std::vector<LayerType> norm_layers() {
  return {
      batch_norm_layer(),
      layer("layer_norm", "normalisation over the last axes",
            Describe<LayerNormKeys>()
                .key("axes", &LayerNormKeys::axes, "number of last axes", {.min = 1, .max = kMaxRank})
                .key("eps", of<LayerNormKeys>(&nn::NormOptions::eps), kEpsHelp, kEps)
                .key("affine", of<LayerNormKeys>(&nn::NormOptions::affine), kAffineHelp),
            make_layer_norm),
      layer("group_norm", "normalisation over groups of channels",
            Describe<GroupNormKeys>()
                .key("groups", &GroupNormKeys::groups, "number of groups", size_rule(true))
                .key("eps", of<GroupNormKeys>(&nn::NormOptions::eps), kEpsHelp, kEps)
                .key("affine", of<GroupNormKeys>(&nn::NormOptions::affine), kAffineHelp),
            [](const GroupNormKeys& o, Inputs inputs) -> ModulePtr {
              return std::make_shared<nn::GroupNorm>(o.groups, inputs[0].at(-1), o);
            }),
      layer("dropout", "zeroes elements at random in training",
            Describe<DropoutKeys>().key("p", &DropoutKeys::p, "dropout probability", probability_rule()),
            [](const DropoutKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Dropout>(o.p); })};
}

std::vector<LayerType> pool_layers() {
  auto average = describe_pool();
  average.key("count_include_pad", &PoolKeys::count_include_pad,
              "divide by the full window area at the border too");
  return {layer("max_pool2d", "maximum of each window", describe_pool(),
                [](const PoolKeys& o, Inputs) -> ModulePtr {
                  return std::make_shared<nn::MaxPool2d>(o.options());
                }),
          layer("avg_pool2d", "average of each window", average,
                [](const PoolKeys& o, Inputs) -> ModulePtr {
                  return std::make_shared<nn::AvgPool2d>(o.options());
                }),
          layer("adaptive_avg_pool2d", "average of windows chosen for a given output size",
                Describe<AdaptivePoolKeys>().key("size", &AdaptivePoolKeys::size, "output height and width",
                                                 size_rule(true)),
                [](const AdaptivePoolKeys& o, Inputs) -> ModulePtr {
                  return std::make_shared<nn::AdaptiveAvgPool2d>(o.size[0], o.size[1]);
                }),
          layer("global_avg_pool2d", "average of each channel: [N,H,W,C] → [N,C]",
                Describe<GlobalAvgPool2dKeys>(), [](const GlobalAvgPool2dKeys&, Inputs) -> ModulePtr {
                  return std::make_shared<nn::GlobalAvgPool2d>();
                })};
}

std::vector<LayerType> block_layers() {
  return {block_layer<BasicBlock>("basic_block", "residual block of two 3×3 convolutions"),
          block_layer<Bottleneck>("bottleneck", "residual block of 1×1, 3×3 and 1×1 convolutions")};
}

}  // namespace tandem::models
