// Convolution problems: the functions of dnn.h that do not need cuDNN.
#include <algorithm>

#include "core/cuda/dnn_engines.h"
#include "core/error.h"

namespace tandem::cuda::dnn {

std::string_view name_of(Pass pass) {
  constexpr std::string_view names[] = {"conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"};
  return names[static_cast<int>(pass)];
}

std::string to_string(const Convolution& p) {
  const Conv2dOptions& o = p.options;
  return fmt::format(
      "{} → {}{}{}{}, x [{},{},{},{}], filter [{},{},{},{}], y [{},{},{},{}], stride [{},{}], padding "
      "[{},{}], "
      "dilation [{},{}], groups {}",
      tandem::name_of(p.dtype), tandem::name_of(p.result), p.bias ? " + bias" : "", p.sums ? " + sums" : "",
      p.add ? " + addend" : "", p.batch, p.height, p.width, p.channels, p.out_channels, p.kernel_height,
      p.kernel_width, p.channels / o.groups, p.batch, p.out_height, p.out_width, p.out_channels, o.stride[0],
      o.stride[1], o.padding[0], o.padding[1], o.dilation[0], o.dilation[1], o.groups);
}

std::string key_text(Pass pass, const Convolution& problem, const Rules& rules) {
  return fmt::format(
      "{}: {}{}{}{}", name_of(pass), to_string(problem), rules.deterministic ? ", deterministic" : "",
      problem.dtype == DType::f32 && !rules.allow_tf32 ? ", no TF32" : "",
      is_16bit(problem.dtype) && (problem.bias || problem.add || problem.dtype != problem.result)
          ? fmt::format(", f32 for up to {} times the time", rules.wide_cost)
          : std::string());
}

bool expressible(const Convolution& p) {
  const Conv2dOptions& o = p.options;
  const auto fits = [&](Index extent, Index kernel, Index out, int axis) {
    const Index reach = extent + 2 * o.padding[axis] - o.dilation[axis] * (kernel - 1) - 1;
    return reach >= 0 && out == reach / o.stride[axis] + 1;
  };
  return p.batch > 0 && p.height > 0 && p.width > 0 && p.channels > 0 && p.out_channels > 0 &&
         fits(p.height, p.kernel_height, p.out_height, 0) && fits(p.width, p.kernel_width, p.out_width, 1);
}

bool is_product(Pass pass, const Convolution& p) {
  const Conv2dOptions& o = p.options;
  const bool pointwise = p.kernel_height == 1 && p.kernel_width == 1 && o.groups == 1 &&
                         o.stride == std::array<Index, 2>{1, 1} && o.padding == std::array<Index, 2>{0, 0};
  // cuBLASLt's bias has the type of its output.
  return pointwise && pass != Pass::filter_gradient && !p.sums && !p.add &&
         (!p.bias || p.result == DType::f32);
}

std::vector<Convolution> alternatives(Pass pass, const Convolution& problem, const Rules& rules) {
  const auto whole = [&](Index channels) {
    return channels / problem.options.groups % kChannelsOfWideGradients == 0;
  };
  const bool may_widen = rules.wide_cost > 0 && (pass != Pass::filter_gradient ||
                                                 (whole(problem.channels) && whole(problem.out_channels)));
  std::vector<Convolution> result;
  const auto add = [&](DType dtype, bool bias) {
    Convolution p = problem;
    p.result = dtype;
    p.bias = bias;
    const bool widens = p.result != p.dtype;
    if ((may_widen || !widens) && std::find(result.begin(), result.end(), p) == result.end())
      result.push_back(p);
  };
  add(problem.result, problem.bias);
  // If the bias is added separately, the sum stays f32 until then, if possible.
  add(problem.bias ? DType::f32 : problem.result, false);
  add(problem.dtype, false);
  return result;
}

namespace {

std::string advice_for(const Convolution& p, const Rules& rules) {
  std::string advice;
  if (is_16bit(p.dtype) && (p.channels % 8 != 0 || p.out_channels % 8 != 0))
    advice = "channel counts divisible by 8 have more plans; ";
  if (rules.deterministic) advice += "fewer plans are deterministic; ";
  return advice +
         "another data type or a smaller data.batch_size may have a plan; CUDNN_LOGLEVEL_DBG=2 with "
         "CUDNN_LOGDEST_DBG=stderr shows cuDNN's reasons";
}

}  // namespace

void fail(Pass pass, const Convolution& p, const Rules& rules, std::string_view call, std::string_view text) {
  constexpr std::size_t kMostText = 800;  // cuDNN may report a reason for every engine
  throw VendorError("cudnn", fmt::format("{}: {}: {}; {}; {}", name_of(pass), call, text.substr(0, kMostText),
                                         to_string(p), advice_for(p, rules)));
}

}  // namespace tandem::cuda::dnn
