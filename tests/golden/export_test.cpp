// Exported networks against onnxruntime, which evaluated these files: tests/golden/export_check.py stores its
// logits and the SHA-256 of each file, so unchanged bytes are known to agree. With TANDEM_ONNX_PYTHON, a
// Python with onnxruntime, onnx, numpy, safetensors, torch and torchvision, onnxruntime and torchvision run
// again. TANDEM_EXPORT_DIR keeps the files.
#include "export/export.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "export/onnx.h"
#include "files/write.h"
#include "tests/golden/export_models.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

using namespace tandem;

namespace {

constexpr Index kBatch = 3;
constexpr double kTolerance = 1e-4;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Tensor input_of(const ExportCase& each) {
  const std::string stream = "input of " + each.name;
  const Shape shape = each.sample.inserted(0, kBatch);
  if (each.dtype == DType::f32) return signed_unit(stream, shape);
  std::vector<std::int64_t> indices;
  for (const std::uint32_t word : hashed(stream, shape.numel())) indices.push_back(word % kVocabulary);
  return Tensor::from(indices, shape);
}

std::string onnx_of(const ExportCase& each) {
  return exporting::onnx_model(*each.model, each.sample, {.opset = each.opset, .dtype = each.dtype});
}

Tensor logits_of(const ExportCase& each, const Tensor& input) {
  const NoGrad no_grad;
  return (*each.model)(input);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  REQUIRE(x.size() == y.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

// By the program of that name.
std::string sha256(const std::string& path) {
  FILE* pipe = ::popen(("sha256sum '" + path + "'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string digest(64, '\0');
  const std::size_t read = std::fread(digest.data(), 1, digest.size(), pipe);
  REQUIRE(::pclose(pipe) == 0);
  REQUIRE(read == digest.size());
  return digest;
}

class Folder {
 public:
  Folder() : path_(variable("TANDEM_EXPORT_DIR")) {
    if (path_.empty()) path_ = temporary_.path().string();
    std::filesystem::create_directories(path_);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  testing::TemporaryDirectory temporary_;
  std::string path_;
};

void write(const ExportCase& each, exporting::Format format, const Folder& folder) {
  const exporting::ExportRequest request{.format = format,
                                         .path = folder.file(each.name + "." + name_of(format)),
                                         .sample = each.sample,
                                         .dtype = each.dtype};
  exporting::write_exports(*each.model, std::span(&request, 1));
}

// Images as ONNX and PyTorch take them.
Tensor as_nchw(const Tensor& input) { return input.rank() == 4 ? permute(input, {0, 3, 1, 2}) : input; }

}  // namespace

TEST_CASE("exported networks are the files with which onnxruntime agreed") {
  const safetensors::File golden(tandem::test::source_path("tests/golden/export.safetensors"));
  const Folder folder;
  const auto cases = export_cases();
  CHECK(golden.entries().size() == cases.size());
  for (const ExportCase& each : cases) {
    INFO(each.name);
    const std::string path = folder.file(each.name + ".onnx");
    files::write_atomically(path, onnx_of(each));
    CHECK(sha256(path) == golden.metadata().at(each.name + ".sha256"));
    CHECK(largest_difference(logits_of(each, input_of(each)), golden.read(each.name)) < kTolerance);
  }
}

TEST_CASE("onnxruntime, torchvision and NumPy read what is exported") {
  const std::string python = variable("TANDEM_ONNX_PYTHON");
  if (python.empty() && variable("TANDEM_EXPORT_DIR").empty()) {
    WARN("not asked again: TANDEM_ONNX_PYTHON names no Python with onnxruntime and torchvision");
    return;
  }
  const Folder folder;
  std::vector<safetensors::NamedTensor> tensors;
  const auto add = [&](const ExportCase& each) {
    const Tensor input = input_of(each);
    tensors.emplace_back(each.name + "/input", as_nchw(input));
    tensors.emplace_back(each.name + "/logits", logits_of(each, input));
  };
  for (const ExportCase& each : export_cases()) {
    files::write_atomically(folder.file(each.name + ".onnx"), onnx_of(each));
    add(each);
  }
  for (const int depth : {18, 50}) {
    const auto each = export_case("torchvision_resnet" + std::to_string(depth), {64, 64, 3},
                                  models::resnet(depth, {.num_classes = 10}));
    for (const auto format :
         {exporting::Format::safetensors, exporting::Format::npz, exporting::Format::onnx})
      write(each, format, folder);
    add(each);
  }
  safetensors::write(folder.file("tandem.safetensors"), tensors);
  if (python.empty()) return;
  const std::string script = tandem::test::source_path("tests/golden/export_check.py");
  CHECK(std::system((python + " " + script + " " + folder.path()).c_str()) == 0);
}

TEST_CASE("a frozen model is exported as it is, and stays frozen") {
  const auto cases = export_cases();
  for (const ExportCase& each : cases) {
    INFO(each.name);
    const std::string file = onnx_of(each);
    each.model->freeze(".");
    each.model->train();
    CHECK(onnx_of(each) == file);
    CHECK(each.model->training());
    for (const Parameter& parameter : each.model->parameters()) CHECK(!parameter.trainable());
  }
}

namespace {

// What the trace cannot follow: a tensor that is no parameter, and a view that is no op.
class Strange final : public nn::Module {
 public:
  explicit Strange(bool constant) : constant_(constant) {}
  Tensor forward(const Tensor& x) override {
    return constant_ ? x + Tensor::full({1}, 2.0) : neg(x.viewed(x.shape()));
  }

 private:
  bool constant_;
};

class Ops final : public nn::Module {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  explicit Ops(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  Function function_;
};

std::string refusal(nn::Module& model, const Shape& sample) {
  return testing::user_error_of([&] { exporting::onnx_model(model, sample); });
}

}  // namespace

TEST_CASE("layers without ONNX counterpart are refused by layer and op") {
  using Catch::Contains;
  nn::Sequential net;
  net.add("strange", std::make_shared<Strange>(true));
  CHECK_THAT(refusal(net, {4}), Contains("\"strange\"") && Contains("f32[1]") && Contains("parameter"));
  Strange view(false);
  CHECK_THAT(refusal(view, {4}), Contains("neither the input"));
  Ops flips([](const Tensor& x) { return flip(x, {1}); });
  CHECK_THAT(refusal(flips, {4}), Contains("Ops: flip") && Contains("conv2d, conv_transpose2d"));
  Ops regroups([](const Tensor& x) { return reshape(x, Shape{0, 2, 2}); });
  CHECK(refusal(regroups, {4}).empty());
  Ops mixes([](const Tensor& x) { return reshape(x, Shape{4, 0}); });
  CHECK_THAT(refusal(mixes, {4}), Contains("batch"));
}
