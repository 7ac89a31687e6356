"""The eight orientations of EXIF, by Pillow's ImageOps.exif_transpose: tests/golden/orientation.h.

    python orientation.py > orientation.h    # needs Pillow; the committed orientation.h was made so

An image of 2 rows and 3 columns with the values 0, 40, … 200 is stored with each orientation, as PNG and as JPEG, and read
back. Both have to come out alike but for JPEG's rounding.
"""
import io

import PIL
from PIL import Image, ImageOps

stored = Image.new("L", (3, 2))
stored.putdata(range(0, 240, 40))

print("// Made by orientation.py; see there.\n#pragma once\n\nnamespace golden {\n")
print("struct Orientation {\n  int orientation, rows, columns;\n  int pixels[6];\n};\n")
print(f"// Pillow {PIL.__version__}.\n// clang-format off\ninline constexpr Orientation kOrientations[] = {{")
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    seen = []
    for form in "png", "jpeg":
        file = io.BytesIO()
        stored.save(file, form, exif=exif.tobytes(), **({"quality": 100} if form == "jpeg" else {}))
        seen.append(ImageOps.exif_transpose(Image.open(file)))
    exact, lossy = (list(image.tobytes()) for image in seen)
    assert seen[0].size == seen[1].size and all(abs(a - b) <= 3 for a, b in zip(exact, lossy))
    columns, rows = seen[0].size
    print(f"    {{{orientation}, {rows}, {columns}, {{{', '.join(map(str, exact))}}}}},")
print("};\n// clang-format on\n\n}  // namespace golden")
