"""PyTorch: eager or compiled, channels first or last. Called as `torch_peer.py '<JSON of the workload and mode>'`."""

import json
import sys
import time

from protocol import open_channel, serve

send = open_channel()
job = json.loads(sys.argv[1])

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + shortcut)


class CifarResNet(nn.Module):
    """The three-stage ResNet of small pictures, with projections where the shape changes (as RepDistiller has it)."""

    def __init__(self, depth: int, classes: int):
        super().__init__()
        blocks = (depth - 2) // 6
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        layers, inputs = [], 16
        for stage, width in enumerate((16, 32, 64)):
            for i in range(blocks):
                layers.append(BasicBlock(inputs, width, 2 if stage > 0 and i == 0 else 1))
                inputs = width
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def build(name: str, classes: int) -> nn.Module:
    if name == "resnet18-cifar":
        model = torchvision.models.resnet18(num_classes=classes)
        model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
        return model
    if name == "mobilenetv2":
        return torchvision.models.mobilenet_v2(num_classes=classes, dropout=0.0)
    return CifarResNet(int(name.removeprefix("resnet")), classes)


torch.manual_seed(1)
if job["threads"] > 0:
    torch.set_num_threads(job["threads"])
started = time.perf_counter()
layout = torch.channels_last if job["channelsLast"] else torch.contiguous_format
student = build(job["student"], job["classes"]).to(memory_format=layout).train()
teacher = None
if job.get("teacher"):
    teacher = build(job["teacher"], job["classes"]).to(memory_format=layout).eval().requires_grad_(False)
optimizer = torch.optim.SGD(
    student.parameters(), lr=job["rate"], momentum=job["momentum"], weight_decay=job["decay"], fused=job["fused"]
)
height, width, channels = job["inputSize"]
images = torch.randn(job["batch"], channels, height, width).contiguous(memory_format=layout)
labels = torch.arange(job["batch"]) % job["classes"]
T = job.get("temperature", 1)


def loss_of(x, y):
    logits = student(x)
    loss = F.cross_entropy(logits, y)
    if teacher is None:
        return loss
    with torch.no_grad():
        target = F.log_softmax(teacher(x) / T, 1)
    return loss + F.kl_div(F.log_softmax(logits / T, 1), target, log_target=True, reduction="batchmean") * T * T


if job["compile"]:
    loss_of = torch.compile(loss_of)


def step() -> float:
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(images, labels)
    loss.backward()
    optimizer.step()
    return loss.item()


serve(
    send,
    {
        "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__, "python": sys.version.split()[0]},
        "parameters": sum(p.numel() for p in student.parameters()),
        "build": (time.perf_counter() - started) * 1000,
    },
    step,
)
