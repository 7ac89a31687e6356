// Guards around host memory, enabled by TANDEM_GUARD.
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;

namespace {

Outcome train(const TemporaryDirectory& directory, const std::string& run, const std::string& precision,
              const std::map<std::string, std::string>& environment) {
  return launch({.arguments = {"train", "digits_mlp", R"(model={"name": "resnet8", "width": 4})", "epochs=1",
                               "data.batch_size=64", "optimizer=sgd", "precision=" + precision, "threads=1",
                               "run_dir=" + run},
                 .directory = directory.path().string(),
                 .environment = environment});
}

}  // namespace

TEST_CASE("a guarded run is told, and ends with the bits of another", "[program]") {
  // The shapes, few channels and strided kernels of 1×1, are those that oneDNN's kernels overrun at both
  // levels.
  for (const std::string level : {"AVX2", "AVX512_CORE"}) {
    for (const std::string precision : {"amp_bf16", "amp_fp16", "fp32"}) {
      INFO(level << ' ' << precision);
      const TemporaryDirectory directory;
      const Outcome plain = train(directory, "plain", precision, {{"ONEDNN_MAX_CPU_ISA", level}});
      const Outcome guarded =
          train(directory, "guarded", precision, {{"ONEDNN_MAX_CPU_ISA", level}, {"TANDEM_GUARD", "1"}});
      INFO(plain.err << guarded.err);
      REQUIRE(plain.exit_code == 0);
      REQUIRE(guarded.exit_code == 0);
      CHECK_THAT(guarded.out + guarded.err, Contains("guards are on (TANDEM_GUARD)"));
      CHECK_THAT(plain.out + plain.err, !Contains("guards are on"));
      CHECK(saved_tensors(directory.path() / "plain", "weights") ==
            saved_tensors(directory.path() / "guarded", "weights"));
    }
  }
}
