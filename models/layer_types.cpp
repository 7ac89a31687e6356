#include "models/layer_types.h"

#include <algorithm>

#include "models/resnet.h"
#include "nn/layers.h"

namespace tandem::models {

namespace {

using Inputs = std::span<const Shape>;
using Type = OptionType;
using nn::ModulePtr;

constexpr double kMaxExtent = 1 << 24;  // keeps a mistyped size from asking for absurd memory

OptionInfo size_option(std::string name, std::string help, bool required = true) {
  return {.name = std::move(name),
          .type = Type::integer,
          .help = std::move(help),
          .fallback = {},
          .required = required,
          .low = 1,
          .high = kMaxExtent};
}

OptionInfo pair_option(std::string name, std::string help, std::optional<OptionValue> fallback,
                       double low = 1) {
  return {.name = std::move(name),
          .type = Type::pair,
          .help = std::move(help),
          .fallback = std::move(fallback),
          .required = false,
          .low = low,
          .high = kMaxExtent};
}

OptionInfo required_pair(std::string name, std::string help) {
  OptionInfo info = pair_option(std::move(name), std::move(help), std::nullopt);
  info.required = true;
  return info;
}

OptionInfo flag(std::string name, std::string help, bool fallback) {
  return {.name = std::move(name), .type = Type::boolean, .help = std::move(help), .fallback = fallback};
}

OptionInfo real(std::string name, std::string help, double fallback, double low, double high) {
  return {.name = std::move(name),
          .type = Type::real,
          .help = std::move(help),
          .fallback = fallback,
          .required = false,
          .low = low,
          .high = high};
}

OptionInfo choice(std::string name, std::string help, std::string fallback,
                  std::vector<std::string> choices) {
  return {.name = std::move(name),
          .type = Type::text,
          .help = std::move(help),
          .fallback = std::move(fallback),
          .choices = std::move(choices)};
}

OptionInfo axis_option() {
  return {.name = "axis",
          .type = Type::integer,
          .help = "the axis, not 0, which is the batch; negative ones count from the end",
          .fallback = Index{-1},
          .required = false,
          .low = -kMaxRank,
          .high = kMaxRank - 1};
}

// The axis of a layer that computes across it, which must not be that of the batch.
int sample_axis(const Options& o, Inputs inputs) {
  const Index axis = o.integer("axis");
  if (axis == 0 || axis == -inputs[0].rank())
    o.fail("axis",
           fmt::format("{} is the batch in an input of {}, whose samples a layer must not mix; the axes of a "
                       "sample count from 1, or back from -1",
                       axis, to_string(inputs[0])));
  return static_cast<int>(axis);
}

OptionInfo eps_option() { return real("eps", "added to the variance", 1e-5, 1e-30, 1.0); }

OptionInfo init_option() {
  std::vector<std::string> names;
  for (int i = 0; i < nn::kWeightInitCount; ++i) names.push_back(nn::name_of(static_cast<nn::WeightInit>(i)));
  return choice("init", "how the weight starts", "standard", std::move(names));
}

nn::WeightInit init_of(const Options& o) {
  int i = 0;
  while (o.text("init") != nn::name_of(static_cast<nn::WeightInit>(i))) ++i;
  return static_cast<nn::WeightInit>(i);
}

// The last extent of the input, which `name` must equal when it is given.
Index last_extent(const Options& o, const char* name, Inputs inputs) {
  return o.integer_or_known(name, inputs[0].at(-1), 0, "the input has");
}

// "same" padding keeps the extent of a convolution of stride 1.
std::array<Index, 2> padding_of(const Options& o, std::array<Index, 2> kernel,
                                std::array<Index, 2> dilation) {
  if (!o.is_word("padding")) return o.pair("padding");
  std::array<Index, 2> padding{};
  for (int axis = 0; axis < 2; ++axis) {
    const Index reach = dilation[axis] * (kernel[axis] - 1);
    if (reach % 2 != 0) o.fail("padding", fmt::format("\"same\" needs an odd kernel, got {}", kernel[axis]));
    padding[axis] = reach / 2;
  }
  return padding;
}

std::vector<OptionInfo> conv_options() {
  OptionInfo padding =
      pair_option("padding", "zeros on each side; \"same\" keeps the extent at stride 1", Index{0}, 0);
  padding.word = "same";
  OptionInfo groups = size_option("groups", "channel groups that do not see each other", false);
  groups.fallback = Index{1};
  return {size_option("out_channels", "channels of the result"),
          required_pair("kernel", "extent of the filter"),
          pair_option("stride", "step of the filter", Index{1}),
          padding,
          pair_option("dilation", "distance of the filter's elements", Index{1}),
          groups,
          flag("bias", "adds a constant to each channel", true),
          init_option(),
          size_option("in_channels", "channels of the input; found by itself", false)};
}

ModulePtr make_conv2d(const Options& o, Inputs inputs) {
  nn::ConvOptions options{.stride = o.pair("stride"),
                          .padding = {},
                          .dilation = o.pair("dilation"),
                          .groups = o.integer("groups"),
                          .bias = o.boolean("bias"),
                          .init = init_of(o)};
  options.padding = padding_of(o, o.pair("kernel"), options.dilation);
  return std::make_shared<nn::Conv2d>(last_extent(o, "in_channels", inputs), o.integer("out_channels"),
                                      o.pair("kernel"), options);
}

ModulePtr make_conv1d(const Options& o, Inputs inputs) {
  const Index kernel = o.integer("kernel");
  const Index dilation = o.integer("dilation");
  if (o.is_word("padding") && dilation * (kernel - 1) % 2 != 0)
    o.fail("padding", fmt::format("\"same\" needs an odd kernel, got {}", kernel));
  const Index padding = o.is_word("padding") ? dilation * (kernel - 1) / 2 : o.integer("padding");
  return std::make_shared<nn::Conv1d>(
      last_extent(o, "in_channels", inputs), o.integer("out_channels"), kernel,
      nn::Conv1dLayerOptions{o.integer("stride"), padding, dilation, o.integer("groups"), o.boolean("bias"),
                             init_of(o)});
}

ModulePtr make_conv_transpose2d(const Options& o, Inputs inputs) {
  nn::ConvTransposeOptions options;
  options.stride = o.pair("stride");
  options.dilation = o.pair("dilation");
  options.padding = padding_of(o, o.pair("kernel"), options.dilation);
  options.groups = o.integer("groups");
  options.bias = o.boolean("bias");
  options.init = init_of(o);
  options.output_padding = o.pair("output_padding");
  return std::make_shared<nn::ConvTranspose2d>(last_extent(o, "in_channels", inputs),
                                               o.integer("out_channels"), o.pair("kernel"), options);
}

std::vector<LayerType> weight_layers() {
  std::vector<OptionInfo> conv1d = conv_options();
  for (OptionInfo& info : conv1d) {
    if (info.type == Type::pair) info.type = Type::integer;
  }
  std::vector<OptionInfo> transposed = conv_options();
  transposed.push_back(pair_option("output_padding", "extra rows and columns at the end", Index{0}, 0));
  OptionInfo padding_index = size_option("padding_index", "a row that stays 0", false);
  padding_index.low = 0;
  return {
      {"linear",
       "fully connected, over the last axis",
       {size_option("out_features", "features of the result"),
        flag("bias", "adds a constant to each feature", true), init_option(),
        size_option("in_features", "features of the input; found by itself", false)},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::Linear>(last_extent(o, "in_features", inputs), o.integer("out_features"),
                                             nn::LinearOptions{o.boolean("bias"), init_of(o)});
       }},
      {"conv2d", "convolution of images [N,H,W,C]", conv_options(), make_conv2d},
      {"conv1d", "convolution of sequences [N,L,C]", conv1d, make_conv1d},
      {"conv_transpose2d", "transposed convolution of images", transposed, make_conv_transpose2d},
      {"embedding",
       "rows of a table by index",
       {size_option("count", "rows of the table"), size_option("dim", "columns of the table"), padding_index},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Embedding>(
             o.integer("count"), o.integer("dim"),
             o.has("padding_index") ? std::optional(o.integer("padding_index")) : std::nullopt);
       }},
  };
}

ModulePtr make_batch_norm(const Options& o, Inputs inputs) {
  return std::make_shared<nn::BatchNorm>(last_extent(o, "channels", inputs),
                                         nn::BatchNormLayerOptions{.eps = o.real("eps"),
                                                                   .momentum = o.real("momentum"),
                                                                   .relu = o.boolean("relu"),
                                                                   .affine = o.boolean("affine"),
                                                                   .zero_gamma = o.boolean("zero_gamma")});
}

ModulePtr make_layer_norm(const Options& o, Inputs inputs) {
  const int axes = static_cast<int>(o.integer("axes"));
  if (axes >= inputs[0].rank())
    o.fail("axes", fmt::format("the input {} has only {} axes besides the batch", to_string(inputs[0]),
                               inputs[0].rank() - 1));
  const Shape over(inputs[0].extents().last(static_cast<std::size_t>(axes)));
  return std::make_shared<nn::LayerNorm>(over, nn::NormOptions{o.real("eps"), o.boolean("affine")});
}

std::vector<LayerType> norm_layers() {
  const OptionInfo affine = flag("affine", "learns a factor and a constant", true);
  OptionInfo axes = size_option("axes", "how many last axes", false);
  axes.fallback = Index{1};
  axes.high = kMaxRank;
  return {
      {"batch_norm",
       "batch normalisation; a second input is added before the activation",
       {flag("relu", "max(0, …) in the same pass", false), eps_option(),
        real("momentum", "weight of a batch in the running statistics", 0.1, 0.0, 1.0), affine,
        flag("zero_gamma", "the factor starts at 0", false),
        size_option("channels", "channels of the input; found by itself", false)},
       make_batch_norm,
       1,
       2},
      {"layer_norm", "normalisation over the last axes", {axes, eps_option(), affine}, make_layer_norm},
      {"group_norm",
       "normalisation over groups of channels",
       {size_option("groups", "how many groups"), eps_option(), affine},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::GroupNorm>(o.integer("groups"), inputs[0].at(-1),
                                                nn::NormOptions{o.real("eps"), o.boolean("affine")});
       }},
      {"dropout",
       "zeroes elements at random in training",
       {real("p", "probability of a zero", 0.5, 0.0, 0.999999)},
       [](const Options& o, Inputs) -> ModulePtr { return std::make_shared<nn::Dropout>(o.real("p")); }},
  };
}

Pool2dOptions pool_options(const Options& o) {
  Pool2dOptions options{.kernel = o.pair("kernel"), .stride = {}, .padding = o.pair("padding")};
  options.stride = o.has("stride") ? o.pair("stride") : options.kernel;
  for (int axis = 0; axis < 2; ++axis) {
    if (2 * options.padding[axis] > options.kernel[axis])
      o.fail("padding",
             fmt::format("{} is more than half the kernel {}", options.padding[axis], options.kernel[axis]));
  }
  return options;
}

std::vector<LayerType> pool_layers() {
  const std::vector<OptionInfo> window{
      required_pair("kernel", "extent of the window"),
      pair_option("stride", "step of the window; the kernel's extent by itself", {}),
      pair_option("padding", "border on each side", Index{0}, 0)};
  std::vector<OptionInfo> average = window;
  average.push_back(flag("count_include_pad", "divides by the window's area at the border too", true));
  return {
      {"max_pool2d", "maximum of windows", window,
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::MaxPool2d>(pool_options(o));
       }},
      {"avg_pool2d", "average of windows", average,
       [](const Options& o, Inputs) -> ModulePtr {
         Pool2dOptions options = pool_options(o);
         options.count_include_pad = o.boolean("count_include_pad");
         return std::make_shared<nn::AvgPool2d>(options);
       }},
      {"adaptive_avg_pool2d",
       "average of windows that give the asked size",
       {required_pair("size", "height and width of the result")},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::AdaptiveAvgPool2d>(o.pair("size")[0], o.pair("size")[1]);
       }},
      {"global_avg_pool2d",
       "average of each channel: [N,H,W,C] → [N,C]",
       {},
       [](const Options&, Inputs) -> ModulePtr { return std::make_shared<nn::GlobalAvgPool2d>(); }},
  };
}

ModulePtr make_upsample(const Options& o, Inputs) {
  if (o.has("size") == o.has("scale")) o.fail("size", "give either \"size\" or \"scale\"");
  nn::UpsampleOptions options;
  if (o.has("size")) options.size = o.pair("size");
  if (o.has("scale")) options.scale = std::array{o.real("scale"), o.real("scale")};
  options.mode = o.text("mode") == "nearest" ? ResizeMode::nearest : ResizeMode::bilinear;
  options.align_corners = o.boolean("align_corners");
  options.recompute_scale_factor = o.boolean("recompute_scale_factor");
  if (options.align_corners && options.mode == ResizeMode::nearest)
    o.fail("align_corners", "has a meaning for \"bilinear\" only");
  if (!options.recompute_scale_factor && (!options.scale || options.align_corners))
    o.fail("recompute_scale_factor", "false has a meaning for \"scale\" without align_corners only");
  return std::make_shared<nn::Upsample>(options);
}

// Configurations say fp16 where tensors say f16.
DType dtype_of(const Options& o, const char* key) {
  std::string name = o.text(key);
  if (name.starts_with("fp")) name.erase(1, 1);
  const std::optional<DType> dtype = dtype_from_name(name);
  ensure(dtype.has_value(), "cast", "\"{}\" is no type", o.text(key));
  return *dtype;
}

ModulePtr make_split(const Options& o, Inputs inputs) {
  const int axis = sample_axis(o, inputs);
  if (o.has("sizes") == o.has("parts")) o.fail("sizes", "give either \"sizes\" or \"parts\"");
  if (o.has("sizes")) return std::make_shared<nn::Split>(o.integers("sizes"), axis);
  const Index extent = inputs[0].at(axis), parts = o.integer("parts");
  if (extent % parts != 0)
    o.fail("parts", fmt::format("{} does not divide axis {} of {}", parts, axis, to_string(inputs[0])));
  return std::make_shared<nn::Split>(std::vector<Index>(static_cast<std::size_t>(parts), extent / parts),
                                     axis);
}

std::vector<LayerType> shape_layers() {
  OptionInfo scale =
      real("scale", "factor of height and width, which are rounded down; see recompute_scale_factor", 1.0,
           1e-3, 1e3);
  scale.fallback.reset();
  OptionInfo parts = size_option("parts", "number of pieces of one extent, instead of sizes", false);
  parts.high = 4096;
  return {
      {"flatten",
       "[N,…] → [N,rest]",
       {choice("order", "hwc: as in memory; chw: as PyTorch's weights expect", "hwc", {"hwc", "chw"})},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Flatten>(o.text("order") == "chw" ? nn::FlattenOrder::chw
                                                                       : nn::FlattenOrder::hwc);
       }},
      {"reshape",
       "another shape for each sample",
       {{.name = "shape",
         .type = Type::integers,
         .help = "extents without the batch; one may be -1",
         .fallback = {},
         .required = true,
         .low = -1,
         .high = kMaxExtent}},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Reshape>(o.integers("shape"));
       }},
      {"upsample",
       "images of another size",
       {pair_option("size", "height and width of the result", {}), scale,
        choice("mode", "how pixels are made", "nearest", {"nearest", "bilinear"}),
        flag("align_corners", "corner pixels stay where they are", false),
        flag(
            "recompute_scale_factor",
            "coordinates follow from the sizes, even where the scale gives no whole ones; PyTorch's default, "
            "false, takes them from the scale",
            true)},
       make_upsample},
      {"identity",
       "the input",
       {},
       [](const Options&, Inputs) -> ModulePtr { return std::make_shared<nn::Identity>(); }},
      {"cast",
       "the same values in another type; the gradient is cast back",
       {{.name = "dtype",
         .type = Type::text,
         .help = "the type that values are rounded to, whatever the precision of the run",
         .fallback = {},
         .required = true,
         .choices = {"fp16", "bf16", "fp32"}}},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Cast>(dtype_of(o, "dtype"));
       }},
      {"add",
       "sum of several inputs",
       {flag("relu", "max(0, …) of the sum", false)},
       [](const Options& o, Inputs) -> ModulePtr { return std::make_shared<nn::Add>(o.boolean("relu")); },
       2,
       64},
      {"concat",
       "several inputs one after the other",
       {axis_option()},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::Concat>(sample_axis(o, inputs));
       },
       2,
       64},
      {"split",
       "pieces along an axis; other layers take them as NAME.0, NAME.1, …",
       {{.name = "sizes",
         .type = Type::integers,
         .help = "extents of the pieces, which add up",
         .low = 1,
         .high = kMaxExtent},
        parts,
        axis_option()},
       make_split,
       1,
       1,
       /*several_outputs=*/true},
  };
}

template <class M>
LayerType plain(std::string name, std::string help) {
  return {std::move(name), std::move(help), {}, [](const Options&, Inputs) -> ModulePtr {
            return std::make_shared<M>();
          }};
}

std::vector<LayerType> activation_layers() {
  return {
      plain<nn::Relu>("relu", "max(0, x)"),
      {"leaky_relu",
       "x, or negative_slope·x below 0",
       {real("negative_slope", "slope below 0", 0.01, -1e6, 1e6)},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::LeakyRelu>(o.real("negative_slope"));
       }},
      {"elu",
       "x, or alpha·(eˣ - 1) below 0",
       {real("alpha", "the limit at -∞ is -alpha", 1.0, 0.0, 1e6)},
       [](const Options& o, Inputs) -> ModulePtr { return std::make_shared<nn::Elu>(o.real("alpha")); }},
      {"gelu",
       "x·Φ(x)",
       {choice("form", "exact, or by tanh", "erf", {"erf", "tanh"})},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Gelu>(o.text("form") == "tanh" ? GeluForm::tanh : GeluForm::erf);
       }},
      plain<nn::Silu>("silu", "x·sigmoid(x)"),
      {"softplus",
       "log(1 + exp(beta·x))/beta",
       {real("beta", "sharpness", 1.0, 1e-6, 1e6),
        real("threshold", "linear where beta·x is above", 20.0, 0.0, 1e6)},
       [](const Options& o, Inputs) -> ModulePtr {
         return std::make_shared<nn::Softplus>(o.real("beta"), o.real("threshold"));
       }},
      plain<nn::Hardswish>("hardswish", "x·clamp(x + 3, 0, 6)/6"),
      plain<nn::Sigmoid>("sigmoid", "1/(1 + exp(-x))"),
      plain<nn::Tanh>("tanh", "hyperbolic tangent"),
      {"prelu",
       "leaky_relu with a learned slope",
       {flag("per_channel", "a slope for each channel", false),
        real("start", "the slope at first", 0.25, -1e6, 1e6)},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::Prelu>(o.boolean("per_channel") ? inputs[0].at(-1) : 1, o.real("start"));
       }},
      {"softmax",
       "probabilities along an axis",
       {axis_option()},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::Softmax>(sample_axis(o, inputs));
       }},
      {"log_softmax",
       "their logarithms",
       {axis_option()},
       [](const Options& o, Inputs inputs) -> ModulePtr {
         return std::make_shared<nn::LogSoftmax>(sample_axis(o, inputs));
       }},
  };
}

template <class Block>
ModulePtr make_block(const Options& o, Inputs inputs) {
  return std::make_shared<Block>(
      last_extent(o, "in_channels", inputs), o.integer("channels"),
      BlockOptions{.stride = o.integer("stride"),
                   .zero_init_residual = o.boolean("zero_init_residual"),
                   .shortcut = o.text("shortcut") == "padding" ? ResNetShortcut::padding
                                                               : ResNetShortcut::projection});
}

std::vector<LayerType> block_layers() {
  OptionInfo stride = size_option("stride", "step of the block", false);
  stride.fallback = Index{1};
  const std::vector<OptionInfo> options{
      size_option("channels", "channels inside; a bottleneck gives four times as many"), stride,
      flag("zero_init_residual", "the block starts as the identity", false),
      choice("shortcut", "how shapes are matched", "projection", {"projection", "padding"}),
      size_option("in_channels", "channels of the input; found by itself", false)};
  return {{"basic_block", "residual block of two 3×3 convolutions", options, make_block<BasicBlock>},
          {"bottleneck", "residual block of 1×1, 3×3 and 1×1 convolutions", options, make_block<Bottleneck>}};
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> all;
    for (auto family :
         {weight_layers, norm_layers, pool_layers, shape_layers, activation_layers, block_layers}) {
      for (LayerType& type : family()) all.push_back(std::move(type));
    }
    return all;
  }();
  return types;
}

const LayerType* find_layer_type(std::string_view name) {
  const auto found = std::ranges::find(layer_types(), name, &LayerType::name);
  return found == layer_types().end() ? nullptr : &*found;
}

std::vector<std::string> layer_type_names() {
  std::vector<std::string> names;
  for (const LayerType& type : layer_types()) names.push_back(type.name);
  return names;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const LayerType& type : activation_layers()) names.push_back(type.name);
  return names;
}

nn::ModulePtr new_activation(const std::string& type) {
  const std::vector<std::string> names = activation_names();
  require(std::ranges::count(names, type) == 1, "activation", "there is no activation \"{}\"{}", type,
          suggestion(type, names));
  const LayerType& found = *find_layer_type(type);
  const Shape unused{1, 1};
  return found.make(Options(type, found.options, {}), {&unused, 1});
}

}  // namespace tandem::models
