#include "core/tensor.h"

#include <cstring>
#include <limits>

#include "core/backend.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/shapes_backend.h"

namespace tandem {

Tensor Tensor::over(Ref<Storage> storage, std::size_t offset, const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.storage_ = std::move(storage);
  tensor.offset_ = offset;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  ensure(offset + tensor.bytes() <= tensor.storage_->bytes(), "tensor",
         "{} at byte {} exceeds a storage of {} bytes", to_string(tensor), offset, tensor.storage_->bytes());
  return tensor;
}

Tensor Tensor::empty(const Shape& shape, TensorOptions options) {
  CachingAllocator& allocator = backend_for(options.device).allocator();
  std::size_t bytes = 0;
  require(!__builtin_mul_overflow(shape.numel(), size_of(options.dtype), &bytes), "tensor",
          "the bytes of {}{} do not fit 64 bits", name_of(options.dtype), to_string(shape));
  return over(make_ref<Storage>(allocator, bytes, options.device, options.kind), 0, shape, options.dtype);
}

Tensor Tensor::full(const Shape& shape, double value, TensorOptions options) {
  Tensor tensor = empty(shape, options);
  backend_for(options.device).fill(tensor, value);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, TensorOptions options) { return full(shape, 0.0, options); }

Tensor Tensor::scalar(double value, TensorOptions options) { return full(Shape{}, value, options); }

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, Device device) {
  require(static_cast<Index>(values.size()) == shape.numel(), "tensor", "{} values do not fill shape {}",
          values.size(), to_string(shape));
  Tensor host = empty(shape, {.dtype = dtype_of<T>()});
  T* out = host.data<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];  // std::vector<bool> has no data()
  return host.to(device);
}

Tensor Tensor::viewed(const Shape& shape) const {
  require_defined("view");
  require(shape.numel() == numel(), "view", "{} cannot be viewed as {}: {} elements against {}",
          to_string(shape_), to_string(shape), numel(), shape.numel());
  Tensor view = detach();
  view.shape_ = shape;
  return view;
}

Tensor Tensor::rows(Index first, Index count) const {
  require_defined("rows");
  require(rank() > 0 && first >= 0 && count >= 0 && count <= shape_[0] - first, "rows",
          "{} rows from {} on lie outside {}", count, first, to_string(shape_));
  Tensor view = detach();
  view.shape_ = shape_.with(0, count);
  view.offset_ += static_cast<std::size_t>(first * shape_.product(1, rank())) * size_of(dtype_);
  return view;
}

Tensor Tensor::detach() const {
  Tensor tensor = *this;
  tensor.edge_ = {};
  return tensor;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  require_defined("to_vector");
  const Tensor host = to(Device{});
  backend_for(device()).synchronize();
  std::vector<T> values(static_cast<std::size_t>(numel()));
  visit_dtype(dtype_, [&]<class S>(TypeTag<S>) {
    const S* source = host.data<S>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert<T>(source[i]);
  });
  return values;
}

double Tensor::item() const {
  require(defined() && numel() == 1, "item", "{} does not have exactly one element", to_string(*this));
  const double value = to_vector<double>()[0];
  return value == value ? value : std::numeric_limits<double>::quiet_NaN();  // printed without a sign
}

Tensor Tensor::to(Device target) const {
  require_defined("to");
  if (device() == target) return *this;
  ensure(device() != kShapes, "tensor", "{} has a shape and no elements to read", to_string(*this));
  Tensor result = empty(shape_, {dtype_, target});
  // Device backends can copy to and from host memory; the host backend cannot.
  const Device mover = target.type == DeviceType::cpu ? device() : target;
  backend_for(mover).copy_bytes(detach(), result);
  return result;
}

Tensor Tensor::clone(MemoryKind kind) const {
  require_defined("clone");
  Tensor result = empty(shape_, {dtype_, device(), kind});
  backend_for(device()).copy_bytes(detach(), result);
  return result;
}

void Tensor::require_defined(const char* where) const {
  if (!defined()) [[unlikely]]
    throw UserError(where, "the tensor is absent");
}

void Tensor::fail_dtype(DType asked) const {
  throw InternalError("tensor",
                      fmt::format("elements read as {}, the tensor is {}", name_of(asked), to_string(*this)));
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "absent";
  return std::string(name_of(tensor.dtype())) + to_string(tensor.shape());
}

#define TANDEM_INSTANTIATE(T)                                                   \
  template Tensor Tensor::from<T>(const std::vector<T>&, const Shape&, Device); \
  template std::vector<T> Tensor::to_vector<T>() const;
TANDEM_INSTANTIATE(double)
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(Half)
TANDEM_INSTANTIATE(BFloat16)
TANDEM_INSTANTIATE(std::int64_t)
TANDEM_INSTANTIATE(std::int32_t)
TANDEM_INSTANTIATE(std::uint8_t)
TANDEM_INSTANTIATE(bool)
#undef TANDEM_INSTANTIATE

}  // namespace tandem
