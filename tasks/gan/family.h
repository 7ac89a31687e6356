// GAN: a generator of images and a discriminator, trained against each other. Metrics: fd_lenet
// (fd_classifier), class_entropy. See docs/gan.md.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry gan_family();

}  // namespace tandem::tasks
