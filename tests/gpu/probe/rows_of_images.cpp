// Networks of images: the shapes of a ResNet-50 of 256 images, and of an SSD300 of 64.
#include <fmt/format.h>

#include "core/kernels/boxes.h"
#include "core/kernels/conv.h"
#include "core/kernels/norm.h"
#include "core/kernels/pool.h"
#include "tests/gpu/probe/rows.h"

namespace tandem::probe {

namespace {

constexpr Index kBatch = 256;

struct Maps {
  Index side, channels;
};

Shape maps_of(Extents cut, Maps maps) {
  return {cut(kBatch, 2), cut(maps.side, 4), cut(maps.side, 4), cut(maps.channels, 16)};
}

std::string label(const char* op, Maps maps, const char* suffix) {
  return fmt::format("{} {}x{}x{}x{} {}", op, kBatch, maps.side, maps.side, maps.channels, suffix);
}

// ---- batch norm

BatchNormForward norm_of(Operands& make, const Shape& shape, bool residual) {
  const Shape channels{shape.at(-1)};
  BatchNormForward args{.x = make.noise(shape, DType::bf16), .residual = {}};
  if (residual) args.residual = make.noise(shape, DType::bf16);
  args.gamma = make.noise(channels, DType::f32);
  args.beta = make.noise(channels, DType::f32);
  args.y = make.empty(shape, DType::bf16);
  args.mean = make.empty(channels, DType::f32);
  args.rstd = make.empty(channels, DType::f32);
  args.mask = make.empty({(shape.numel() + 7) / 8}, DType::u8);
  args.relu = true;
  return args;
}

// x is read by the statistics and by what writes y, with a bit of the mask for each element.
Row norm_forward(Extents cut, Maps maps, bool residual) {
  const Shape shape = maps_of(cut, maps);
  const double map = bytes_of(shape.numel(), DType::bf16);
  return {.name = label("bn_forward", maps, residual ? "bf16, addition" : "bf16"),
          .family = "norm",
          .bytes = map * (residual ? 4.0 : 3.0) + map / 16.0,
          .kernels = 3,
          .make = [=](Operands& make) -> Work {
            const BatchNormForward args = norm_of(make, shape, residual);
            return [&backend = make.backend(), args] { backend.norm().batch_norm_train(args); };
          }};
}

// x, dy and the mask are read twice; with an addition dy is written for the other branch as well.
Row norm_backward(Extents cut, Maps maps, bool residual) {
  const Shape shape = maps_of(cut, maps);
  const double map = bytes_of(shape.numel(), DType::bf16);
  return {.name = label("bn_backward", maps, residual ? "bf16, addition" : "bf16"),
          .family = "norm",
          .bytes = map * (residual ? 6.0 : 5.0) + map / 8.0,
          .kernels = 3,
          .make = [=](Operands& make) -> Work {
            const BatchNormForward forward = norm_of(make, shape, residual);
            make.backend().norm().batch_norm_train(forward);
            const Shape channels{shape.at(-1)};
            BatchNormBackward args{
                .x = forward.x, .gamma = forward.gamma, .mean = forward.mean, .rstd = forward.rstd};
            args.mask = forward.mask;
            args.dy = make.noise(shape, DType::bf16);
            args.dx = make.empty(shape, DType::bf16);
            if (residual) args.dresidual = make.empty(shape, DType::bf16);
            args.dgamma = make.empty(channels, DType::f32);
            args.dbeta = make.empty(channels, DType::f32);
            args.relu = true;
            return [&backend = make.backend(), args] { backend.norm().batch_norm_backward(args); };
          }};
}

// ---- convolutions, all of stride 1

struct Filters {
  Index side, inputs, outputs, kernel;
};

struct ConvShapes {
  Shape x, y, filter;
  double flop;
};

ConvShapes shapes_of(Extents cut, Filters f) {
  const Index batch = cut(kBatch, 2), side = cut(f.side, 4), in = cut(f.inputs, 8), out = cut(f.outputs, 8);
  const Shape y{batch, side, side, out};
  return {.x = {batch, side, side, in},
          .y = y,
          .filter = {out, f.kernel, f.kernel, in},
          .flop = 2.0 * static_cast<double>(y.numel() * in * f.kernel * f.kernel)};
}

std::string label(const char* op, Filters f, const char* suffix) {
  return fmt::format("{} {}x{}, {}x{}, {}->{} {}", op, f.kernel, f.kernel, f.side, f.side, f.inputs,
                     f.outputs, suffix);
}

Conv2dOptions same(Filters f) { return {.padding = {f.kernel / 2, f.kernel / 2}}; }

Row conv_forward(Extents cut, Filters f) {
  const ConvShapes s = shapes_of(cut, f);
  return {.name = label("conv", f, "bf16"),
          .family = "conv",
          .bytes = bytes_of(s.x.numel() + s.y.numel() + s.filter.numel(), DType::bf16),
          .flop = s.flop,
          .make = [=](Operands& make) -> Work {
            const Tensor x = make.noise(s.x, DType::bf16), filter = make.noise(s.filter, DType::bf16);
            const Tensor y = make.empty(s.y, DType::bf16);
            return [=, &backend = make.backend()] { backend.conv().conv2d(x, filter, {}, y, same(f)); };
          }};
}

Row conv_to_input(Extents cut, Filters f) {
  const ConvShapes s = shapes_of(cut, f);
  return {.name = label("conv_input", f, "bf16"),
          .family = "conv",
          .bytes = bytes_of(s.x.numel() + s.y.numel() + s.filter.numel(), DType::bf16),
          .flop = s.flop,
          .make = [=](Operands& make) -> Work {
            const Tensor dy = make.noise(s.y, DType::bf16), filter = make.noise(s.filter, DType::bf16);
            const Tensor dx = make.empty(s.x, DType::bf16);
            return [=, &backend = make.backend()] {
              backend.conv().conv2d_input_gradient(dy, filter, dx, same(f));
            };
          }};
}

// `result` f32 as Tandem's gradients are, or rounded as PyTorch's.
Row conv_to_filter(Extents cut, Filters f, DType result) {
  const ConvShapes s = shapes_of(cut, f);
  return {.name = label("conv_filter", f, result == DType::f32 ? "bf16 to f32" : "bf16"),
          .family = f.kernel == 1 ? "product" : "conv",
          .bytes = bytes_of(s.x.numel() + s.y.numel(), DType::bf16) + bytes_of(s.filter.numel(), result),
          .flop = s.flop,
          .make = [=](Operands& make) -> Work {
            const Tensor x = make.noise(s.x, DType::bf16), dy = make.noise(s.y, DType::bf16);
            const Tensor dfilter = make.empty(s.filter, result);
            return [=, &backend = make.backend()] {
              backend.conv().conv2d_filter_gradient(x, dy, dfilter, same(f));
            };
          }};
}

Row pooling(Extents cut) {
  const Index batch = cut(kBatch, 2), side = cut(112, 4), channels = cut(64, 16);
  const Shape from{batch, side, side, channels}, to{batch, side / 2, side / 2, channels};
  return {.name = "max_pool 256x112x112x64 bf16",
          .family = "pool",
          .bytes = bytes_of(from.numel() + to.numel(), DType::bf16) + bytes_of(to.numel(), DType::u8),
          .make = [=](Operands& make) -> Work {
            const Tensor x = make.noise(from, DType::bf16), y = make.empty(to, DType::bf16);
            const Tensor where = make.empty(to, DType::u8);
            return [=, &backend = make.backend()] {
              backend.pool().max_pool2d(x, y, where, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
            };
          }};
}

// ---- boxes

// A block an image, and passes over the anchors for every object: nothing that bytes bound.
Row matching(Extents cut, Index objects) {
  const Index images = cut(64, 2), anchors = cut(8732, 40), count = cut(objects, 3);
  return {.name = fmt::format("match_boxes 64 images, 8732 anchors, {} objects", objects),
          .family = "boxes",
          .bytes = bytes_of(images * anchors * 5 + anchors * 4, DType::f32),
          .make = [=](Operands& make) -> Work {
            std::vector<float> around, objects_of;
            for (Index i = 0; i < anchors; ++i) {
              const float at = (static_cast<float>(i) + 0.5f) / static_cast<float>(anchors);
              around.insert(around.end(), {at, at, 0.2f, 0.2f});
            }
            for (Index i = 0; i < images * count; ++i) {
              const float at = 0.8f * static_cast<float>(i % count) / static_cast<float>(count);
              objects_of.insert(objects_of.end(), {at, at, at + 0.2f, at + 0.2f, 1.0f});
            }
            const Device device = make.backend().device();
            const BoxMatch args{.anchors = Tensor::from(around, {anchors, 4}, device),
                                .boxes = Tensor::from(objects_of, {images, count, 5}, device),
                                .options = {},
                                .label = make.empty({images, anchors}, DType::i32),
                                .code = make.empty({images, anchors, 4}, DType::f32),
                                .unmatched = make.empty({images}, DType::i32)};
            return [&backend = make.backend(), args] { backend.boxes().match_boxes(args); };
          }};
}

}  // namespace

void add_image_rows(Extents cut, std::vector<Row>& rows) {
  // Every shape that batch norm has in a ResNet-50.
  for (const Maps maps : {Maps{112, 64},
                          {56, 64},
                          {56, 256},
                          {56, 128},
                          {28, 128},
                          {28, 512},
                          {28, 256},
                          {14, 256},
                          {14, 1024},
                          {14, 512},
                          {7, 512},
                          {7, 2048}}) {
    const bool ends_block = maps.channels * maps.side == 256 * 56;  // where two branches are added
    rows.push_back(norm_forward(cut, maps, ends_block));
    rows.push_back(norm_backward(cut, maps, ends_block));
  }
  // Filter gradients of 1x1 convolutions: products of few results and long sums.
  for (const Filters f : {Filters{56, 64, 64, 1},
                          {56, 64, 256, 1},
                          {56, 256, 64, 1},
                          {56, 128, 256, 1},
                          {28, 128, 512, 1},
                          {28, 512, 128, 1},
                          {28, 256, 512, 1},
                          {28, 512, 256, 1},
                          {14, 256, 1024, 1},
                          {14, 1024, 256, 1},
                          {14, 512, 1024, 1},
                          {14, 1024, 512, 1},
                          {7, 512, 2048, 1},
                          {7, 2048, 512, 1},
                          {7, 2048, 1024, 1}})
    rows.push_back(conv_to_filter(cut, f, DType::f32));
  for (const Filters f : {Filters{56, 64, 64, 3}, {28, 128, 128, 3}, {14, 256, 256, 3}, {7, 512, 512, 3}}) {
    rows.push_back(conv_to_filter(cut, f, DType::f32));
    rows.push_back(conv_to_filter(cut, f, DType::bf16));
  }
  for (const Filters f : {Filters{56, 64, 64, 3}, {14, 256, 256, 3}, {56, 64, 256, 1}, {14, 1024, 256, 1}}) {
    rows.push_back(conv_forward(cut, f));
    rows.push_back(conv_to_input(cut, f));
  }
  rows.push_back(pooling(cut));
  for (const Index objects : {7, 60}) rows.push_back(matching(cut, objects));
}

}  // namespace tandem::probe
