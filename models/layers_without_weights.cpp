// Layer types that rearrange values, and activations.
#include "models/layer_types.h"
#include "nn/layers.h"

template <>
struct tandem::options::EnumNames<tandem::nn::FlattenOrder> {
  static constexpr std::array values{"hwc", "chw"};
};
template <>
struct tandem::options::EnumNames<tandem::ResizeMode> {
  static constexpr std::array values{"nearest", "bilinear"};
};
template <>
struct tandem::options::EnumNames<tandem::GeluForm> {
  static constexpr std::array values{"erf", "tanh"};
};

namespace tandem::models {

namespace {

using Inputs = std::span<const Shape>;
using nn::ModulePtr;
using options::Describe;
using options::Rule;

struct NoKeys {};

template <class Module>
LayerType plain(std::string name, std::string help) {
  return layer(std::move(name), std::move(help), Describe<NoKeys>(),
               [](const NoKeys&, Inputs) -> ModulePtr { return std::make_shared<Module>(); });
}

// The axis of a layer that computes across it, which must not be the batch axis.
struct AxisKeys {
  Index axis = -1;

  int of_samples(Inputs inputs) const {
    if (axis == 0 || axis == -inputs[0].rank())
      throw OptionError("axis", fmt::format("{} is the batch in an input of {}, whose samples a layer must "
                                            "not mix; the axes of a sample count from 1, or back from -1",
                                            axis, to_string(inputs[0])));
    return static_cast<int>(axis);
  }
};

template <class Keys>
Describe<Keys>& add_axis(Describe<Keys>& keys) {
  return keys.key("axis", of<Keys>(&AxisKeys::axis),
                  "axis, except 0 (the batch); negative values count from the end",
                  {.min = -kMaxRank, .max = kMaxRank - 1});
}

template <class Module>
LayerType along_axis(std::string name, std::string help) {
  Describe<AxisKeys> keys;
  return layer(std::move(name), std::move(help), add_axis(keys),
               [](const AxisKeys& o, Inputs inputs) -> ModulePtr {
                 return std::make_shared<Module>(o.of_samples(inputs));
               });
}

LayerType of_several(LayerType type) {
  type.min_inputs = 2;
  type.max_inputs = 64;
  return type;
}

struct FlattenKeys {
  nn::FlattenOrder order = nn::FlattenOrder::hwc;
};

struct ReshapeKeys {
  std::vector<Index> shape;
};

struct CastKeys {
  std::string dtype;
};

struct AddKeys {
  bool relu = false;
};

struct UpsampleKeys : nn::UpsampleOptions {
  std::optional<double> factor;  // for both axes
};

std::string complaint_of(const UpsampleKeys& o) {
  return !o.recompute_scale_factor && (!o.factor || o.align_corners)
             ? "false needs \"scale\" without align_corners"
             : "";
}

LayerType upsample_layer() {
  using Layer = nn::UpsampleOptions;
  Describe<UpsampleKeys> keys;
  keys.key("size", of<UpsampleKeys>(&Layer::size), "output height and width", size_rule())
      .key("scale", &UpsampleKeys::factor,
           "factor on height and width, rounded down; see recompute_scale_factor", {.min = 1e-3, .max = 1e3})
      .key("mode", of<UpsampleKeys>(&Layer::mode), "interpolation")
      .key("align_corners", of<UpsampleKeys>(&Layer::align_corners), "corner pixels keep their positions")
      .key("recompute_scale_factor", of<UpsampleKeys>(&Layer::recompute_scale_factor),
           "compute coordinates from the rounded sizes; false, PyTorch's default: from the scale")
      .rule("size", "give either \"size\" or \"scale\"",
            [](const UpsampleKeys& o) { return o.size.has_value() != o.factor.has_value(); })
      .rule("align_corners", "applies to \"bilinear\" only",
            [](const UpsampleKeys& o) { return !o.align_corners || o.mode == ResizeMode::bilinear; })
      .rule("recompute_scale_factor", complaint_of);
  return layer("upsample", "resizes images", keys, [](const UpsampleKeys& o, Inputs) -> ModulePtr {
    nn::UpsampleOptions options = o;
    if (o.factor) options.scale = std::array{*o.factor, *o.factor};
    return std::make_shared<nn::Upsample>(options);
  });
}

// Configurations name f16 "fp16".
DType dtype_of(std::string name) {
  if (name.starts_with("fp")) name.erase(1, 1);
  const std::optional<DType> dtype = dtype_from_name(name);
  ensure(dtype.has_value(), "cast", "\"{}\" is not a type", name);
  return *dtype;
}

struct SplitKeys : AxisKeys {
  std::optional<std::vector<Index>> sizes;
  std::optional<Index> parts;
};

ModulePtr make_split(const SplitKeys& o, Inputs inputs) {
  const int axis = o.of_samples(inputs);
  if (o.sizes) return std::make_shared<nn::Split>(*o.sizes, axis);
  const Index extent = inputs[0].at(axis), parts = *o.parts;
  if (extent % parts != 0)
    throw OptionError("parts",
                      fmt::format("{} does not divide axis {} of {}", parts, axis, to_string(inputs[0])));
  return std::make_shared<nn::Split>(std::vector<Index>(static_cast<std::size_t>(parts), extent / parts),
                                     axis);
}

LayerType split_layer() {
  Describe<SplitKeys> keys;
  keys.key("sizes", &SplitKeys::sizes, "extents of the pieces; must sum to the axis", size_rule())
      .key("parts", &SplitKeys::parts, "number of equal pieces, instead of sizes", {.min = 1, .max = 4096})
      .rule("sizes", "give either \"sizes\" or \"parts\"",
            [](const SplitKeys& o) { return o.sizes.has_value() != o.parts.has_value(); });
  LayerType type = layer("split", "splits along an axis; other layers use the pieces as NAME.0, NAME.1, …",
                         add_axis(keys), make_split);
  type.several_outputs = true;
  return type;
}

struct LeakyKeys {
  double negative_slope = 0.01;
};

struct EluKeys {
  double alpha = 1.0;
};

struct GeluKeys {
  GeluForm form = GeluForm::erf;
};

struct SoftplusKeys {
  double beta = 1.0, threshold = 20.0;
};

struct PreluKeys {
  bool per_channel = false;
  double start = 0.25;
};

const Rule kSlopes{.min = -1e6, .max = 1e6};

}  // namespace

std::vector<LayerType> shape_layers() {
  return {
      layer("flatten", "[N,…] → [N,rest]",
            Describe<FlattenKeys>().key("order", &FlattenKeys::order,
                                        "hwc: as in memory; chw: as PyTorch's weights expect"),
            [](const FlattenKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Flatten>(o.order); }),
      layer("reshape", "reshapes each sample",
            Describe<ReshapeKeys>().key("shape", &ReshapeKeys::shape,
                                        "extents without the batch; one may be -1 (inferred)",
                                        {.min = -1, .max = kMaxExtent, .required = true}),
            [](const ReshapeKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Reshape>(o.shape); }),
      upsample_layer(),
      plain<nn::Identity>("identity", "returns its input"),
      layer("cast", "casts to another type; the gradient is cast back",
            Describe<CastKeys>().key("dtype", &CastKeys::dtype,
                                     "target type, independent of the run's precision",
                                     {.choices = {"fp16", "bf16", "fp32"}, .required = true}),
            [](const CastKeys& o, Inputs) -> ModulePtr {
              return std::make_shared<nn::Cast>(dtype_of(o.dtype));
            }),
      of_several(layer(
          "add", "sum of several inputs", Describe<AddKeys>().key("relu", &AddKeys::relu, "ReLU of the sum"),
          [](const AddKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Add>(o.relu); })),
      of_several(along_axis<nn::Concat>("concat", "concatenates several inputs")),
      split_layer(),
  };
}

std::vector<LayerType> activation_layers() {
  return {
      plain<nn::Relu>("relu", "max(0, x)"),
      plain<nn::Relu6>("relu6", "min(max(0, x), 6)"),
      layer("leaky_relu", "x, or negative_slope·x below 0",
            Describe<LeakyKeys>().key("negative_slope", &LeakyKeys::negative_slope, "slope below 0", kSlopes),
            [](const LeakyKeys& o, Inputs) -> ModulePtr {
              return std::make_shared<nn::LeakyRelu>(o.negative_slope);
            }),
      layer("elu", "x, or alpha·(eˣ - 1) below 0",
            Describe<EluKeys>().key("alpha", &EluKeys::alpha, "negative limit: -alpha at -∞",
                                    {.min = 0.0, .max = 1e6}),
            [](const EluKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Elu>(o.alpha); }),
      layer("gelu", "x·Φ(x)", Describe<GeluKeys>().key("form", &GeluKeys::form, "exact, or by tanh"),
            [](const GeluKeys& o, Inputs) -> ModulePtr { return std::make_shared<nn::Gelu>(o.form); }),
      plain<nn::Silu>("silu", "x·sigmoid(x)"),
      layer("softplus", "log(1 + exp(beta·x))/beta",
            Describe<SoftplusKeys>()
                .key("beta", &SoftplusKeys::beta, "sharpness", {.min = 1e-6, .max = 1e6})
                .key("threshold", &SoftplusKeys::threshold, "linear where beta·x is above",
                     {.min = 0.0, .max = 1e6}),
            [](const SoftplusKeys& o, Inputs) -> ModulePtr {
              return std::make_shared<nn::Softplus>(o.beta, o.threshold);
            }),
      plain<nn::Hardswish>("hardswish", "x·clamp(x + 3, 0, 6)/6"),
      plain<nn::Hardsigmoid>("hardsigmoid", "clamp(x + 3, 0, 6)/6"),
      plain<nn::Sigmoid>("sigmoid", "1/(1 + exp(-x))"),
      plain<nn::Tanh>("tanh", "hyperbolic tangent"),
      layer("prelu", "leaky_relu with a learned slope",
            Describe<PreluKeys>()
                .key("per_channel", &PreluKeys::per_channel, "one slope per channel")
                .key("start", &PreluKeys::start, "initial slope", kSlopes),
            [](const PreluKeys& o, Inputs inputs) -> ModulePtr {
              return std::make_shared<nn::Prelu>(o.per_channel ? inputs[0].at(-1) : 1, o.start);
            }),
      along_axis<nn::Softmax>("softmax", "probabilities along an axis"),
      along_axis<nn::LogSoftmax>("log_softmax", "log-probabilities along an axis"),
  };
}

}  // namespace tandem::models
