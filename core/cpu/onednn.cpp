#include "core/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "core/cpu/level.h"
#include "core/cpu/openmp.h"
#include "core/cpu/packed_weights.h"
#include "core/error.h"
#include "core/guard.h"
#include "core/kernel_cache.h"

namespace tandem::cpu::onednn {

namespace {

void check(dnnl_status_t status, std::string_view where) {
  if (status != dnnl_success) [[unlikely]]
    throw VendorError(where, fmt::format("oneDNN reports {}", dnnl_status2str(status)));
}

// The level limits oneDNN as well, unless ONEDNN_MAX_CPU_ISA is set.
void limit_instructions(Level level) {
  constexpr dnnl_cpu_isa_t kLimits[] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core,
                                        dnnl_cpu_isa_avx512_core_bf16};
  if (level == Level::amx || std::getenv("ONEDNN_MAX_CPU_ISA")) return;
  check(dnnl_set_max_cpu_isa(kLimits[static_cast<std::size_t>(level)]), "oneDNN level");
}

dnnl_engine_t engine() {
  static dnnl_engine_t engine = [] {
    limit_instructions(level());  // level() requests AMX before oneDNN inspects the CPU
    dnnl_engine_t created = nullptr;
    check(dnnl_engine_create(&created, dnnl_cpu, 0), "oneDNN engine");
    dnnl_set_primitive_cache_capacity(0);  // Tandem caches primitives itself
    return created;
  }();
  return engine;
}

dnnl_stream_t stream() {
  static dnnl_stream_t stream = [] {
    dnnl_stream_t created = nullptr;
    check(dnnl_stream_create(&created, engine(), dnnl_stream_in_order), "oneDNN stream");
    return created;
  }();
  return stream;
}

dnnl_data_type_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl_f32;
    case DType::bf16:
      return dnnl_bf16;
    default:
      throw InternalError("oneDNN", fmt::format("oneDNN does not compute {}", name_of(dtype)));
  }
}

// RAII owners of C handles.
template <class T, auto destroy>
struct Handle {
  T value = nullptr;
  Handle() = default;
  explicit Handle(T owned) : value(owned) {}
  Handle(Handle&& other) noexcept : value(std::exchange(other.value, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (value) destroy(value);
  }
  operator T() const { return value; }
};
using Desc = Handle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using PrimitiveDesc = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Attributes = Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using PostOps = Handle<dnnl_post_ops_t, dnnl_post_ops_destroy>;

const Layout* intern(const_dnnl_memory_desc_t desc) {
  static std::deque<Layout> layouts;
  for (const Layout& layout : layouts) {
    if (dnnl_memory_desc_equal(layout.desc, desc)) return &layout;
  }
  dnnl_memory_desc_t copy = nullptr;
  check(dnnl_memory_desc_clone(&copy, desc), "oneDNN layout");
  layouts.push_back({copy, dnnl_memory_desc_get_size(copy), static_cast<std::uint32_t>(layouts.size())});
  return &layouts.back();
}

Desc strided(std::initializer_list<Index> dims, std::initializer_list<Index> strides, DType dtype) {
  Desc desc;
  check(dnnl_memory_desc_create_with_strides(&desc.value, static_cast<int>(dims.size()), dims.begin(),
                                             type_of(dtype), strides.begin()),
        "oneDNN layout");
  return desc;
}

Desc any(std::initializer_list<Index> dims, DType dtype) {
  Desc desc;
  check(dnnl_memory_desc_create_with_tag(&desc.value, static_cast<int>(dims.size()), dims.begin(),
                                         type_of(dtype), dnnl_format_tag_any),
        "oneDNN layout");
  return desc;
}

// Attributes with a scratchpad from the caller; `sum` adds to the destination.
Attributes attributes(bool sum) {
  Attributes attr;
  check(dnnl_primitive_attr_create(&attr.value), "oneDNN attributes");
  check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user), "oneDNN attributes");
  if (sum) {
    PostOps ops;
    check(dnnl_post_ops_create(&ops.value), "oneDNN attributes");
    check(dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef), "oneDNN attributes");
    check(dnnl_primitive_attr_set_post_ops(attr, ops), "oneDNN attributes");
  }
  return attr;
}

std::string_view implementation_of(const_dnnl_primitive_desc_t pd, std::string_view where) {
  const char* text = nullptr;
  check(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text), where);
  return text;
}

std::unique_ptr<Primitive> build(const PrimitiveDesc& pd, std::initializer_list<int> roles,
                                 std::string where) {
  dnnl_primitive_t primitive = nullptr;
  check(dnnl_primitive_create(&primitive, pd), where);
  return std::make_unique<Primitive>(primitive, roles, std::move(where));
}

const_dnnl_memory_desc_t argument_of(const_dnnl_primitive_t primitive, int role, std::string_view where) {
  const_dnnl_primitive_desc_t pd = nullptr;
  check(dnnl_primitive_get_primitive_desc(primitive, &pd), where);
  return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, role);
}

}  // namespace

// ---- Primitive

Primitive::Primitive(dnnl_primitive* primitive, std::initializer_list<int> roles, std::string where)
    : Primitive(std::shared_ptr<dnnl_primitive>(primitive, dnnl_primitive_destroy),
                std::span(roles.begin(), roles.size()), std::move(where)) {}

std::unique_ptr<Primitive> Primitive::twin() const {
  const std::span roles(roles_, static_cast<std::size_t>(count_));
  return std::unique_ptr<Primitive>(new Primitive(primitive_, roles, where_));
}

Primitive::Primitive(std::shared_ptr<dnnl_primitive> primitive, std::span<const int> roles, std::string where)
    : primitive_(std::move(primitive)), where_(std::move(where)) {
  const auto add = [&](int slot, int role) {
    const_dnnl_memory_desc_t desc = argument_of(primitive_.get(), role, where_);
    check(dnnl_memory_create(&memories_[slot], desc, engine(), DNNL_MEMORY_NONE), where_);
    bytes_[slot] = dnnl_memory_desc_get_size(desc);
  };
  for (const int role : roles) {
    roles_[count_] = role;
    add(count_++, role);
  }
  add(kMaxArguments, DNNL_ARG_SCRATCHPAD);
}

Primitive::~Primitive() {
  for (dnnl_memory* memory : memories_) {
    if (memory) dnnl_memory_destroy(memory);
  }
}

namespace {

// Workspace for one call.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : data_(host_allocator().allocate(bytes, MemoryKind::workspace)) {}
  ~Workspace() { host_allocator().deallocate(data_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
};

}  // namespace

// Copies of a call's arguments, each in guarded memory.
class Primitive::Copies {
 public:
  Copies(const Primitive& primitive, std::span<const void* const> originals)
      : primitive_(primitive), originals_(originals.data()) {
    for (int i = 0; i < primitive.count_; ++i) {
      const std::size_t bytes = primitive.bytes_[i];
      memory_[i].emplace(bytes);
      if (bytes > 0) std::memcpy(memory_[i]->data(), originals_[i], bytes);
      addresses_[i] = memory_[i]->data();
    }
  }

  const void* const* addresses() const { return addresses_; }

  // Copies the output back, after checking that nothing else was written.
  void hand_back() const {
    const int output = primitive_.count_ - 1;
    for (int i = 0; i <= output; ++i) {
      const std::size_t bytes = primitive_.bytes_[i];
      const std::string what = i == output ? "its output" : fmt::format("input {}", i);
      primitive_.check_guards(addresses_[i], what, bytes);
      if (i < output && bytes > 0 && std::memcmp(addresses_[i], originals_[i], bytes) != 0)
        throw VendorError(primitive_.where_,
                          fmt::format("oneDNN's {} wrote into {}", primitive_.implementation(), what));
    }
    if (primitive_.bytes_[output] > 0)
      std::memcpy(const_cast<void*>(originals_[output]), addresses_[output], primitive_.bytes_[output]);
  }

 private:
  const Primitive& primitive_;
  const void* const* originals_;
  std::optional<Workspace> memory_[kMaxArguments];
  const void* addresses_[kMaxArguments] = {};
};

void Primitive::check_guards(const void* block, std::string_view what, std::size_t bytes) const {
  const guard::Overrun overrun = guard::overrun(block);
  if (!overrun) [[likely]]
    return;
  throw VendorError(where_, fmt::format("oneDNN's {} wrote {} {} of {} bytes: later results are invalid; "
                                        "ONEDNN_MAX_CPU_ISA=SSE41 selects other kernels",
                                        implementation(), guard::to_string(overrun), what, bytes));
}

void Primitive::execute(const void* const* addresses) const {
  const SingleThreaded one;
  const Workspace scratchpad(bytes_[kMaxArguments]);
  dnnl_exec_arg_t arguments[kMaxArguments + 1];
  for (int i = 0; i < count_; ++i) {
    check(dnnl_memory_set_data_handle(memories_[i], const_cast<void*>(addresses[i])), where_);
    arguments[i] = {roles_[i], memories_[i]};
  }
  check(dnnl_memory_set_data_handle(memories_[kMaxArguments], scratchpad.data()), where_);
  arguments[count_] = {DNNL_ARG_SCRATCHPAD, memories_[kMaxArguments]};
  check(dnnl_primitive_execute(primitive_.get(), stream(), count_ + 1, arguments), where_);
  if (scratchpad.data()) check_guards(scratchpad.data(), "its scratchpad", bytes_[kMaxArguments]);
}

void Primitive::run(std::span<const void* const> addresses) const {
  ensure(static_cast<int>(addresses.size()) == count_, where_, "{} arguments expected, {} given", count_,
         addresses.size());
  if (guard::on()) [[unlikely]] {
    const Copies copies(*this, addresses);
    execute(copies.addresses());
    copies.hand_back();
  } else {
    execute(addresses.data());
  }
}

const Layout* Primitive::layout(int argument) const {
  return intern(argument_of(primitive_.get(), roles_[argument], where_));
}

std::string Primitive::implementation() const {
  const_dnnl_primitive_desc_t pd = nullptr;
  check(dnnl_primitive_get_primitive_desc(primitive_.get(), &pd), where_);
  return std::string(implementation_of(pd, where_));
}

bool multiplies_bf16() {
  static const bool multiplies = [] {
    engine();  // limits oneDNN's instruction set
    constexpr unsigned kNeeded = dnnl_cpu_isa_avx512_core_bf16;
    const auto effective = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    return has_bf16_products(level()) && (effective & kNeeded) == kNeeded;
  }();
  return multiplies;
}

// ---- convolution

std::string to_string(const Convolution& p) {
  return fmt::format(
      "{} x [{},{},{},{}], filter [{},{},{},{}], y [{},{},{},{}], stride [{},{}], padding [{},{}], dilation "
      "[{},{}], groups {}",
      name_of(p.dtype), p.batch, p.height, p.width, p.channels, p.out_channels, p.kernel_height,
      p.kernel_width, p.channels / p.options.groups, p.batch, p.out_height, p.out_width, p.out_channels,
      p.options.stride[0], p.options.stride[1], p.options.padding[0], p.options.padding[1],
      p.options.dilation[0], p.options.dilation[1], p.options.groups);
}

namespace {

// The padding after the image that gives the output its extent.
Index padding_after(Index extent, Index kernel, Index stride, Index padding, Index dilation, Index out) {
  const Index span = dilation * (kernel - 1) + 1;
  if ((extent + 2 * padding - span) / stride + 1 == out) return padding;
  return (out - 1) * stride + span - extent - padding;
}

Index padding_below(const Convolution& p) {
  return padding_after(p.height, p.kernel_height, p.options.stride[0], p.options.padding[0],
                       p.options.dilation[0], p.out_height);
}
Index padding_right(const Convolution& p) {
  return padding_after(p.width, p.kernel_width, p.options.stride[1], p.options.padding[1],
                       p.options.dilation[1], p.out_width);
}

Desc image(Index n, Index h, Index w, Index c, DType dtype) {
  return strided({n, c, h, w}, {h * w * c, 1, w * c, c}, dtype);
}

Desc filter_in_any_layout(const Convolution& p, DType dtype) {
  const Index g = p.options.groups, o = p.out_channels / g, i = p.channels / g;
  if (g == 1) return any({o, i, p.kernel_height, p.kernel_width}, dtype);
  return any({g, o, i, p.kernel_height, p.kernel_width}, dtype);
}

}  // namespace

bool expressible(const Convolution& p) {
  return padding_below(p) + p.options.stride[0] > 0 && padding_right(p) + p.options.stride[1] > 0;
}

const Layout* plain_filter(const Convolution& p, DType dtype) {
  const Index g = p.options.groups, o = p.out_channels / g, i = p.channels / g;
  const Index kh = p.kernel_height, kw = p.kernel_width;
  if (g == 1) return intern(strided({o, i, kh, kw}, {kh * kw * i, 1, kw * i, i}, dtype));
  return intern(strided({g, o, i, kh, kw}, {o * kh * kw * i, kh * kw * i, 1, kw * i, i}, dtype));
}

namespace {

// oneDNN 3.2's 1×1 kernels first gather strided pixels into their scratchpad. For a filter gradient with
// fewer input channels than vector lanes (8 for AVX2, 16 for AVX-512 and bf16) they request less than they
// write: 352 bytes less for 4 channels at 12×12, 12 KB at 56×56. They are excluded for every stride above 1
// and number of channels, since guards only detect writes beyond the scratchpad.
bool overruns(Pass pass, const Convolution& p, std::string_view implementation) {
  return pass == Pass::filter_gradient && p.options.stride != std::array<Index, 2>{1, 1} &&
         implementation.find("1x1") != std::string_view::npos;
}

}  // namespace

std::unique_ptr<Primitive> convolution(Pass pass, const Convolution& p, Kernels kernels) {
  const SingleThreaded one;
  const char* name = pass == Pass::forward          ? "conv2d"
                     : pass == Pass::input_gradient ? "conv2d_input_gradient"
                                                    : "conv2d_filter_gradient";
  std::string where = fmt::format("{}: {}", name, to_string(p));
  const DType x_type = pass == Pass::input_gradient ? p.result : p.dtype;
  const DType w_type = pass == Pass::filter_gradient ? p.result : p.dtype;
  const DType y_type = pass == Pass::forward ? p.result : p.dtype;
  const Desc x = image(p.batch, p.height, p.width, p.channels, x_type);
  const Desc y = image(p.batch, p.out_height, p.out_width, p.out_channels, y_type);
  const Desc w = filter_in_any_layout(p, w_type);
  const Desc bias = p.bias ? any({p.out_channels}, DType::f32) : Desc{};
  const Attributes attr = attributes(false);
  const dnnl_dims_t strides = {p.options.stride[0], p.options.stride[1]};
  const dnnl_dims_t dilates = {p.options.dilation[0] - 1, p.options.dilation[1] - 1};
  const dnnl_dims_t before = {p.options.padding[0], p.options.padding[1]};
  const dnnl_dims_t after = {padding_below(p), padding_right(p)};
  const auto algorithm = dnnl_convolution_direct;

  const auto forward = [&](const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
                           const_dnnl_memory_desc_t dst, bool hint) {
    PrimitiveDesc pd;
    check(dnnl_convolution_forward_primitive_desc_create(&pd.value, engine(), dnnl_forward_training,
                                                         algorithm, src, weights, hint ? nullptr : bias.value,
                                                         dst, strides, dilates, before, after, attr),
          where);
    return pd;
  };
  if (pass == Pass::forward) {
    const PrimitiveDesc pd = forward(x, w, y, false);
    if (p.bias)
      return build(pd, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}, std::move(where));
    return build(pd, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, std::move(where));
  }
  // The hint only links the passes; its dtype is the one that both passes share.
  const Desc hint_x = image(p.batch, p.height, p.width, p.channels, p.dtype);
  const Desc hint_w = filter_in_any_layout(p, p.dtype);
  const PrimitiveDesc hint = forward(hint_x, hint_w, y, true);
  PrimitiveDesc pd;
  if (pass == Pass::input_gradient) {
    check(dnnl_convolution_backward_data_primitive_desc_create(&pd.value, engine(), algorithm, x, w, y,
                                                               strides, dilates, before, after, hint, attr),
          where);
    return build(pd, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, std::move(where));
  }
  check(dnnl_convolution_backward_weights_primitive_desc_create(
            &pd.value, engine(), algorithm, x, w, nullptr, y, strides, dilates, before, after, hint, attr),
        where);
  while (kernels == Kernels::sound && overruns(pass, p, implementation_of(pd, where)))
    check(dnnl_primitive_desc_next_impl(pd), where);
  return build(pd, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, std::move(where));
}

// ---- matmul

std::string to_string(const Matmul& p) {
  return fmt::format("{} [{},{},{}]{} by [{},{},{}]{}", name_of(p.dtype), p.batch, p.m, p.k,
                     p.transpose_a ? " (stored transposed)" : "", p.batch, p.k, p.n,
                     p.transpose_b ? " (stored transposed)" : "");
}

namespace {

Desc operand_a(const Matmul& p) {
  const Index row = p.transpose_a ? 1 : p.lda, column = p.transpose_a ? p.lda : 1;
  if (p.batch == 1) return strided({p.m, p.k}, {row, column}, p.dtype);
  return strided({p.stride_a ? p.batch : 1, p.m, p.k}, {p.stride_a ? p.stride_a : p.m * p.k, row, column},
                 p.dtype);
}

Desc operand_b(const Matmul& p) {
  const Index row = p.transpose_b ? 1 : p.ldb, column = p.transpose_b ? p.ldb : 1;
  if (p.batch == 1) return strided({p.k, p.n}, {row, column}, p.dtype);
  return strided({p.stride_b ? p.batch : 1, p.k, p.n}, {p.stride_b ? p.stride_b : p.k * p.n, row, column},
                 p.dtype);
}

}  // namespace

const Layout* plain_b(const Matmul& p) { return intern(operand_b(p)); }

std::unique_ptr<Primitive> matmul(const Matmul& p) {
  const SingleThreaded one;
  std::string where = fmt::format("matmul: {}", to_string(p));
  const Desc a = operand_a(p);
  const Desc b = p.packed_b ? any({p.k, p.n}, p.dtype) : operand_b(p);
  const Desc c = p.batch == 1 ? strided({p.m, p.n}, {p.ldc, 1}, p.result)
                              : strided({p.batch, p.m, p.n}, {p.m * p.ldc, p.ldc, 1}, p.result);
  const Desc bias = !p.bias        ? Desc{}
                    : p.batch == 1 ? strided({1, p.n}, {p.n, 1}, DType::f32)
                                   : strided({1, 1, p.n}, {p.n, p.n, 1}, DType::f32);
  const Attributes attr = attributes(p.accumulate);
  PrimitiveDesc pd;
  check(dnnl_matmul_primitive_desc_create(&pd.value, engine(), a, b, bias.value, c, attr), where);
  if (p.bias)
    return build(pd, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}, std::move(where));
  return build(pd, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, std::move(where));
}

void gemm(const Matmul& p, const float* a, const float* b, float* c) {
  const SingleThreaded one;
  check(dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1.0f, a, p.lda, b,
                   p.ldb, p.accumulate ? 1.0f : 0.0f, c, p.ldc),
        "gemm");
}

// ---- reorder and packed tensors

std::unique_ptr<Primitive> reorder(const Layout* from, const Layout* to, bool accumulate) {
  const std::string where = "reorder of weights";
  const SingleThreaded one;
  const Attributes attr = attributes(accumulate);
  PrimitiveDesc pd;
  check(dnnl_reorder_primitive_desc_create(&pd.value, from->desc, engine(), to->desc, engine(), attr), where);
  return build(pd, {DNNL_ARG_FROM, DNNL_ARG_TO}, where);
}

PackedWeights packed(const Tensor& tensor, const Layout* plain, const Layout* wanted) {
  // Tensors at one offset may have different shapes, so the key includes the plain layout.
  struct Move {
    std::uint32_t layout;
    std::unique_ptr<Primitive> reorder;
  };
  static KernelCache<Move> moves;
  const KernelKey key(0, plain->id, wanted->id);
  const Move& move = moves.get(key, [&] {
    return std::make_unique<Move>(Move{layout_id(key), reorder(plain, wanted)});
  });
  return PackedWeights(tensor, move.layout, wanted->bytes, [&](void* to) {
    move.reorder->run({tensor.raw(), to});
  });
}

}  // namespace tandem::cpu::onednn
