#include "core/suggest.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace tandem;

TEST_CASE("edit distances", "[suggest]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("batch_size", "batchsize") == 1);
  CHECK(edit_distance("sdg", "sgd") == 1);  // neighbours swapped
  CHECK(edit_distance("ADAM", "adam") == 0);
  CHECK(edit_distance("ca", "abc") == 3);  // each part is edited once (optimal string alignment)
}

TEST_CASE("the nearest name is suggested, or none", "[suggest]") {
  const std::vector<std::string> known = {"sgd",     "adam",        "adamw",
                                          "rmsprop", "random_crop", "horizontal_flip"};
  CHECK(nearest("adma", known) == "adam");
  CHECK(nearest("Adamw", known) == "adamw");
  CHECK(nearest("rmsporp", known) == "rmsprop");
  CHECK(nearest("flip", known) == "horizontal_flip");
  CHECK(nearest("random_crop_and_more", known) == "random_crop");
  CHECK(nearest("zzzzzz", known).empty());
  // A third of the letters and one more may differ.
  CHECK(nearest("abcdefg", std::vector<std::string>{"abcdxyz"}) == "abcdxyz");
  CHECK(nearest("abcdefg", std::vector<std::string>{"abcwxyz"}).empty());
  CHECK(nearest("xy", known).empty());
  CHECK(nearest("", known).empty());
  CHECK(nearest(std::string(100000, 'a'), known).empty());
  CHECK(did_you_mean("sdg", known) == "; did you mean \"sgd\"?");
  CHECK(did_you_mean("zzzzzz", known).empty());
}

TEST_CASE("suggestions match the intended name", "[suggest]") {
  using Names = std::vector<std::string>;
  const Names precisions{"amp_bf16", "amp_fp16", "fp32"}, devices{"auto", "cpu", "cuda"};
  CHECK(nearest("fp16", precisions) == "amp_fp16");
  CHECK(nearest("float16", precisions) == "amp_fp16");
  CHECK(nearest("half", precisions) == "amp_fp16");
  CHECK(nearest("bfloat16", precisions) == "amp_bf16");
  CHECK(nearest("Float-32", precisions) == "fp32");
  CHECK(nearest("amp_fp16", Names{"fp32", "fp16", "bf16"}) == "fp16");
  CHECK(nearest("gpu", devices) == "cuda");
  CHECK(nearest("GPU", devices) == "cuda");
  CHECK(nearest("cuda:0", devices) == "cuda");
  CHECK(nearest("cup", devices) == "cpu");
  CHECK(nearest("mps", devices).empty());
  CHECK(nearest("top1", Names{"accuracy", "top5", "loss"}) == "accuracy");
  CHECK(nearest("linear", Names{"nearest", "bilinear"}) == "bilinear");
  CHECK(nearest("linear", Names{"constant", "step", "polynomial", "cosine"}) == "polynomial");
  CHECK(nearest("swish", Names{"hardswish", "silu"}) == "silu");
  CHECK(nearest("dense", Names{"linear", "conv2d"}) == "linear");
  CHECK(nearest("random_flip", Names{"random_crop", "horizontal_flip"}) == "horizontal_flip");
  CHECK(nearest("norm", Names{"none", "batch_norm"}) == "batch_norm");
  CHECK(nearest("channels_first", Names{"auto", "nhwc", "nchw"}) == "nchw");
  // Other numbers are other things.
  CHECK(nearest("fp8", precisions).empty());
  CHECK(nearest("fp64", Names{"fp16", "fp32"}).empty());
  CHECK(nearest("amp_bf61", precisions) == "amp_bf16");
  CHECK(nearest("resnet18", Names{"resnet20", "resnet50"}).empty());
  CHECK(nearest("relu6", Names{"relu"}) == "relu");
}
