// GAN: a generator of images and a discriminator that learns to tell them from real ones, one against the
// other. Metrics: fd_lenet (fd_classifier), class_entropy. See docs/gan.md.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry gan_family();

}  // namespace tandem::tasks
