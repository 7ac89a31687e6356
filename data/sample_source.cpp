#include "data/sample_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>

#include "core/cpu/parallel.h"
#include "core/error.h"
#include "data/decorators.h"
#include "data/image_preprocess.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

// Keeps the error of the lowest position, so that the report does not depend on threads.
class FirstError {
 public:
  void note(Index position) {
    const std::lock_guard lock(mutex_);
    if (error_ && position_ < position) return;
    position_ = position;
    error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  Index position_ = 0;
  std::exception_ptr error_;
};

// Rows of boxes per image in a batch, at least 1: a field has no extent of 0.
Index rows_of(const DatasetInfo& info) { return std::max<Index>(*info.most_objects, 1); }

// Writes sample `i` of a batch: pixels, or a record and its window.
class SampleWriter {
 public:
  SampleWriter(const Pipeline& pipeline, bool records, const DatasetInfo& info, DrawKey key,
               const BatchBuffer& buffer)
      : pipeline_(pipeline), key_(key), indices_(buffer.field("index").data<std::int64_t>()) {
    if (info.masks) {
      masks_ = buffer.field("mask").data<std::uint8_t>();
    } else if (info.boxes()) {
      rows_ = static_cast<std::size_t>(rows_of(info));
      boxes_ = static_cast<BoxRow*>(buffer.field("box").raw());
      objects_ = static_cast<ObjectRow*>(buffer.field("object").raw());
      origins_ = buffer.field("origin").data<std::int64_t>();
    } else {
      labels_ = buffer.field("label").data<std::int64_t>();
    }
    if (records) {
      records_ = buffer.field(kRecords).data<std::uint8_t>();
      windows_ = static_cast<ImageWindow*>(buffer.field(kWindows).raw());
    } else {
      images_ = static_cast<std::byte*>(buffer.field("image").raw());
    }
  }

  void write(Index i, const Sample& sample, std::uint32_t index) const {
    DrawKey key = key_;
    key.sample = index;
    indices_[i] = index;
    if (labels_) labels_[i] = sample.label;
    SampleParts to;
    if (masks_) {
      ensure(sample.mask.defined(), "loader", "sample {} of a data set with masks has none", index);
      const Shape& shape = pipeline_.output_shape();
      to.mask = masks_ + i * shape[0] * shape[1];
    }
    if (boxes_) to.boxes = write_objects(i, sample);
    if (images_) {
      const Index elements = pipeline_.output_shape().numel();
      to.image = images_ + static_cast<std::size_t>(i * elements) * size_of(pipeline_.output_dtype());
      pipeline_.apply(sample, key, to);
    } else {
      const Tensor& image = sample.image;
      windows_[i] = pipeline_.window(sample, key, to);
      std::memcpy(records_ + static_cast<std::size_t>(i) * image.bytes(), image.raw(), image.bytes());
    }
  }

 private:
  // Returns the rows for the boxes of sample `i`.
  std::span<BoxRow> write_objects(Index i, const Sample& sample) const {
    ensure(sample.objects.size() <= rows_, "loader", "image {} has {} objects, expected {} at most",
           sample.id, sample.objects.size(), rows_);
    const std::size_t first = static_cast<std::size_t>(i) * rows_;
    ObjectRow* const to = objects_ + first;
    std::fill_n(to, rows_, ObjectRow{});
    std::ranges::transform(sample.objects, to, [](const BoxObject& object) {
      const Corners& box = object.box;
      return ObjectRow{box.x1,
                       box.y1,
                       box.x2,
                       box.y2,
                       static_cast<double>(object.label),
                       static_cast<double>(object.id),
                       object.area,
                       object.crowd ? 1.0 : 0.0,
                       object.difficult ? 1.0 : 0.0};
    });
    std::ranges::copy(std::array{sample.id, sample.image.size(0), sample.image.size(1)}, origins_ + 3 * i);
    return {boxes_ + first, rows_};
  }

  const Pipeline& pipeline_;
  DrawKey key_;
  std::int64_t* indices_;
  std::int64_t* labels_ = nullptr;
  std::uint8_t* masks_ = nullptr;
  std::size_t rows_ = 0;
  BoxRow* boxes_ = nullptr;
  ObjectRow* objects_ = nullptr;
  std::int64_t* origins_ = nullptr;
  std::byte* images_ = nullptr;
  std::uint8_t* records_ = nullptr;
  ImageWindow* windows_ = nullptr;
};

SampleOptions checked(SampleOptions options, const Dataset& dataset, const Pipeline& pipeline) {
  require(options.batch_size >= 1, "loader", "a batch size of {} is not positive", options.batch_size);
  require(is_floating(options.dtype) || options.dtype == pipeline.output_dtype(), "loader",
          "images of {}, expected a floating type", name_of(options.dtype));
  const Index size = dataset.size();
  require(size > 0 && size <= kMaxSamples, "loader", "{} has {} samples", dataset.info().name, size);
  require(!options.drop_last || size >= options.batch_size, "loader",
          "{} has {} samples, less than one batch of {}; drop_last leaves nothing", dataset.info().name, size,
          options.batch_size);
  // A batch holds at most the whole data set.
  options.batch_size = std::min(options.batch_size, size);
  if (pipeline.output_dtype() == DType::i64) options.dtype = DType::i64;
  return options;
}

}  // namespace

SampleSource::SampleSource(DatasetPtr dataset, Pipeline pipeline, SampleOptions options,
                           const ShardSpec& division)
    : Source(division),
      dataset_(std::move(dataset)),
      pipeline_(std::move(pipeline)),
      options_(checked(std::move(options), *dataset_, pipeline_)),
      layout_(division.most(options_.batch_size)) {
  if (keeps_records()) {
    layout_.add(std::string(kRecords), pipeline_.record_shape(), DType::u8);
    layout_.add(std::string(kWindows), {static_cast<Index>(sizeof(ImageWindow))}, DType::u8);
  } else {
    layout_.add("image", pipeline_.output_shape(), pipeline_.output_dtype());
  }
  const DatasetInfo& info = dataset_->info();
  if (info.masks) {
    const Shape& shape = pipeline_.output_shape();
    layout_.add("mask", {shape[0], shape[1]}, DType::u8);
  } else if (info.boxes()) {
    const Index rows = rows_of(info);
    layout_.add("box", {rows, static_cast<Index>(BoxRow{}.size())}, DType::f32);
    layout_.add("object", {rows, kObjectValues}, DType::f64);
    layout_.add("origin", {3}, DType::i64);
    layout_.keep_on_host("box");
  } else {
    layout_.add("label", {}, DType::i64);
  }
  layout_.add("index", {}, DType::i64);
  if (pipeline_.mix().any()) layout_.add("soft_label", {pipeline_.classes()}, DType::f32);
}

SourcePtr SampleSource::divided(const ShardSpec& division) const {
  return std::make_shared<SampleSource>(dataset_, pipeline_, options_, this->division().into(division));
}

bool SampleSource::keeps_records() const {
  return pipeline_.takes_windows() && ImagePreprocess::needed(pipeline_, options_);
}

std::unique_ptr<DevicePreprocess> SampleSource::device_preprocess() const {
  if (!keeps_records() && options_.dtype == pipeline_.output_dtype()) return nullptr;
  return std::make_unique<ImagePreprocess>(pipeline_, options_, layout_.samples(), keeps_records());
}

Index SampleSource::batches(std::uint32_t) const {
  const Index size = dataset_->size(), batch = options_.batch_size;
  const Index whole = options_.drop_last ? size / batch : (size + batch - 1) / batch;
  return whole * division().count;
}

Index SampleSource::samples_in(Index batches) const {
  return std::min(batches * options_.batch_size, dataset_->size());
}

Index SampleSource::samples_before(const BatchKey& key) const { return samples_in(undivided(key).number); }

SampleSource::Order SampleSource::order(std::uint32_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (order_ && (order_epoch_ == epoch || !options_.shuffle)) return order_;
  std::vector<std::uint32_t> order;
  if (options_.shuffle) {
    order = permutation(dataset_->size(), options_.seed, epoch);
  } else {
    order.resize(static_cast<std::size_t>(dataset_->size()));
    std::iota(order.begin(), order.end(), 0U);
  }
  order_ = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
  order_epoch_ = epoch;
  return order_;
}

void SampleSource::fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const {
  const Index batch = undivided(key).number, first = samples_in(batch);
  const Range part = division().samples(key.number, samples_in(batch + 1) - first);
  const auto count = static_cast<Index>(part.count());
  buffer.begin(count, first + static_cast<Index>(part.first));
  if (count == 0) return;
  const Order order = this->order(key.epoch);
  const std::span<const std::uint32_t> samples =
      std::span(*order).subspan(static_cast<std::size_t>(first) + part.first, part.count());
  const SampleWriter writer(pipeline_, keeps_records(), dataset_->info(), {options_.seed, key.epoch, 0},
                            buffer);
  FirstError error;
  const auto work = [&](Index i) {
    try {
      const std::uint32_t index = samples[static_cast<std::size_t>(i)];
      writer.write(i, dataset_->get(index), index);
    } catch (...) {
      error.note(i);
    }
  };
  cpu::parallel_for(parallel, count, work);
  error.rethrow();
  complete(key, samples, parallel, buffer);
}

void SampleSource::complete(const BatchKey& key, std::span<const std::uint32_t> samples, bool parallel,
                            BatchBuffer& buffer) const {
  if (dataset_->info().boxes()) return;
  if (dataset_->info().masks) {
    const Tensor masks = buffer.field("mask");
    if (options_.weigh) return buffer.set_weight(options_.weigh(masks));
    const std::uint8_t* mask = masks.data<std::uint8_t>();
    const auto ignored = std::count(mask, mask + masks.numel(), kIgnored);
    return buffer.set_weight(static_cast<double>(masks.numel() - ignored));
  }
  const Tensor labels = buffer.field("label");
  const bool mixes = pipeline_.mix().any();
  if (options_.weigh && !mixes) buffer.set_weight(options_.weigh(labels));
  if (!mixes) return;
  const Shape& shape = pipeline_.output_shape();
  mix_batch({.options = pipeline_.mix(),
             .seed = options_.seed,
             .epoch = key.epoch,
             .samples = samples,
             .labels = {labels.data<std::int64_t>(), samples.size()},
             .extents = {shape[0], shape[1]},
             .channels = shape[2],
             .classes = pipeline_.classes(),
             .parallel = parallel},
            buffer.field("image").data<float>(), buffer.field("soft_label").data<float>());
}

}  // namespace tandem::datasets
