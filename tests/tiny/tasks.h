// Families for tests of the loop only: two networks with a phase each, and a network that carries state along
// a stream.
#pragma once

namespace tandem::test {

// Makes "pair" and "stream" known to configurations.
void add_tiny_families();

}  // namespace tandem::test
