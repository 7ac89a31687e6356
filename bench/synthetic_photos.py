"""Writes JPEGs with the size and texture of photographs, and COCO annotations of objects in them: synthetic_photos.py FOLDER.

Pixels are noise whose amplitudes fall with the frequency, as in natural images (Field, "Relations between the
statistics of natural images and the response properties of cortical cells", 1987)."""

import json
import pathlib
import sys

import numpy
from PIL import Image

from synthetic import points

COUNT, OBJECTS, WIDTH, HEIGHT, QUALITY = 32, 4, 500, 375, 85


def photograph(random):
    frequency = numpy.hypot(numpy.fft.fftfreq(HEIGHT)[:, None], numpy.fft.rfftfreq(WIDTH)) + 1 / WIDTH
    phase = numpy.exp(2j * numpy.pi * random.random((3, *frequency.shape)))
    noise = numpy.fft.irfft2(phase / frequency, (HEIGHT, WIDTH))
    grey, colour = noise[:1], noise - noise.mean(0)
    return numpy.moveaxis((128 + 50 * (grey + 0.5 * colour) / grey.std()).clip(0, 255).astype(numpy.uint8), 0, 2)


def main(folder):
    random = numpy.random.default_rng(1)
    for number in range(COUNT):
        Image.fromarray(photograph(random)).save(folder / f"{number}.jpg", quality=QUALITY)
    places = points(COUNT * OBJECTS).numpy()
    boxes = numpy.concatenate([0.6 * places[:, :2], 0.1 + 0.3 * places[:, 2:]], 1) * [WIDTH, HEIGHT, WIDTH, HEIGHT]
    (folder / "instances.json").write_text(json.dumps({
        "images": [{"id": i + 1, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(COUNT)],
        "categories": [{"id": 1, "name": "thing"}],
        "annotations": [{"id": i + 1, "image_id": 1 + i // OBJECTS, "category_id": 1, "bbox": box.tolist(),
                         "area": float(box[2] * box[3]), "iscrowd": 0} for i, box in enumerate(boxes)]}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
