// Names of the enums in ResNet options.
#pragma once

#include <array>

#include "core/options/schema.h"
#include "models/resnet.h"

template <>
struct tandem::options::EnumNames<tandem::models::ResNetStem> {
  static constexpr std::array values{"imagenet", "cifar"};
};

template <>
struct tandem::options::EnumNames<tandem::models::ResNetShortcut> {
  static constexpr std::array values{"projection", "padding"};
};
