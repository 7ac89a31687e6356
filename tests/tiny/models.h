// Models that exist for tests alone, one of each interface in models/ beside those that ship: what a program
// outside the tree would bring.
#pragma once

namespace tandem::test {

// Makes "tiny_causal", "tiny_translator", "tiny_bag", "tiny_detector" and "tiny_gan" known to configurations.
void add_tiny_models();

}  // namespace tandem::test
