"""Parts of detection (bench/parts.h) in torchvision and pycocotools: for each, a step and its number of items."""

import contextlib
import io
import json
import os
import pathlib

import torch
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision import tv_tensors
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import box_iou
from torchvision.transforms import v2

from synthetic import points, targets
from pytorch_detection import ssd300_resnet34

IMAGES, OBJECTS, CLASSES, SIDE = 8, 7, 81, 300


def anchors_of(model, images):
    maps = [torch.empty(images, 1, cells, cells) for cells in (38, 19, 10, 5, 3, 1)]
    return model.anchor_generator(ImageList(torch.empty(images, 3, SIDE, SIDE), [(SIDE, SIDE)] * images), maps)


def matched(model, anchors, truth):
    return [model.proposal_matcher(box_iou(each["boxes"], own)) for each, own in zip(truth, anchors)]


def numbers(shape, scale):
    count = torch.Size(shape).numel()
    return (scale * (2 * points(count)[:, 0] - 1)).float().reshape(shape)


def ssd_matching():
    model, truth = ssd300_resnet34(CLASSES), targets(IMAGES, OBJECTS, CLASSES, SIDE)
    anchors = anchors_of(model, IMAGES)

    def step():
        positives = 0
        for each, own, whose in zip(truth, anchors, matched(model, anchors, truth)):
            place = torch.where(whose >= 0)[0]
            labels = torch.zeros(len(own), dtype=torch.int64)
            labels[place] = each["labels"][whose[place]]
            codes = torch.zeros(len(own), 4)
            codes[place] = model.box_coder.encode_single(each["boxes"][whose[place]], own[place])
            positives += len(place)
        return [torch.tensor(positives)]

    return step, IMAGES


def ssd_loss():
    model, truth = ssd300_resnet34(CLASSES), targets(IMAGES, OBJECTS, CLASSES, SIDE)
    anchors = anchors_of(model, IMAGES)
    whose = matched(model, anchors, truth)
    outputs = {"cls_logits": numbers((IMAGES, len(anchors[0]), CLASSES), 2.0),
               "bbox_regression": numbers((IMAGES, len(anchors[0]), 4), 2.0)}
    for each in outputs.values():
        each.requires_grad_()

    def step():
        for each in outputs.values():
            each.grad = None
        loss = sum(model.compute_loss(truth, outputs, anchors, whose).values())
        loss.backward()
        return [loss]

    return step, IMAGES


def candidates(anchors, groups=40, neighbours=25):
    scores = torch.zeros(1, anchors, CLASSES)
    scores[..., 0] = 12
    place = torch.arange(groups * neighbours)
    group = place // neighbours
    scores[0, 200 * group + place % neighbours, 1 + 2 * group] = (9 + 6 * points(len(place))[:, 1]).float()
    return scores


def ssd_nms():
    model = ssd300_resnet34(CLASSES).eval()
    anchors = anchors_of(model, 1)
    outputs = {"cls_logits": candidates(len(anchors[0])), "bbox_regression": numbers((1, len(anchors[0]), 4), 0.5)}

    @torch.no_grad()
    def step():
        return [torch.tensor(len(model.postprocess_detections(outputs, anchors, [(SIDE, SIDE)])[0]["boxes"]))]

    return step, 1


def synthetic_boxes(place):
    corner, extent = place[:, :2] * torch.tensor([400, 240]), 8 + 232 * place[:, 2:] ** 2
    return torch.cat([corner, extent], 1)


def coco_metric(images=500, categories=80, objects=7, detections=100, near=21):
    truth = synthetic_boxes(points(images * objects))
    place = points(images * detections)
    boxes, index = synthetic_boxes(place), torch.arange(images * detections)
    image, rank = index // detections, index % detections
    found = index % categories
    own = image * objects + rank % objects
    moved = truth[own]
    moved[:, :2] += 0.2 * (2 * place[:, :2] - 1) * moved[:, 2:]
    boxes = torch.where((rank < near)[:, None], moved, boxes)
    found = torch.where(rank < near, own % categories, found)
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": 1 + i} for i in range(images)], "categories": [{"id": 1 + i} for i in range(categories)],
            "annotations": [{"id": 1 + i, "image_id": 1 + i // objects, "category_id": 1 + i % categories, "bbox": box,
                             "area": box[2] * box[3], "iscrowd": 0} for i, box in enumerate(truth.tolist())]}
        coco.createIndex()
        results = coco.loadRes([
            {"image_id": int(image[i]) + 1, "category_id": int(found[i]) + 1, "bbox": box, "score": float(place[i, 3])}
            for i, box in enumerate(boxes.tolist())])

    def step():
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = COCOeval(coco, results, "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return [torch.tensor(evaluation.stats[0])]

    return step, images


def ssd_loader():
    torch.set_num_threads(1)
    folder = pathlib.Path(os.environ["TANDEM_BENCH_FILES"])
    annotations = json.loads((folder / "instances.json").read_text())
    boxes = {each["id"]: [] for each in annotations["images"]}
    for each in annotations["annotations"]:
        boxes[each["image_id"]].append(each["bbox"])
    transform = v2.Compose([
        v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes(), v2.RandomHorizontalFlip(), v2.RandomPhotometricDistort(),
        v2.Resize((300, 300)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def sample(image):
        pixels = Image.open(folder / image["file_name"]).convert("RGB")
        own = tv_tensors.BoundingBoxes(boxes[image["id"]], format="XYWH", canvas_size=(pixels.height, pixels.width))
        return transform({"image": pixels, "boxes": own, "labels": torch.ones(len(own), dtype=torch.int64)})

    def step():
        images = [annotations["images"][i] for i in torch.randperm(len(annotations["images"]))]
        samples = [sample(image) for image in images]
        torch.stack([each["image"] for each in samples])
        return [torch.tensor(sum(len(each["boxes"]) for each in samples))]

    return step, len(annotations["images"])


PARTS = {part.__name__: part for part in (ssd_matching, ssd_loss, ssd_nms, coco_metric, ssd_loader)}
