"""Keras 3 on TensorFlow, jit_compile off or on. Called as `keras_peer.py '<JSON of the workload and mode>'`."""

import json
import os
import sys
import time

from protocol import open_channel, serve

os.environ["KERAS_BACKEND"] = "tensorflow"
send = open_channel()
job = json.loads(sys.argv[1])

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def convolution(x, filters: int, kernel: int, stride: int = 1):
    return layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(x)


def norm(x):
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


def basic_block(x, width: int, stride: int):
    shortcut = x
    if stride != 1 or x.shape[-1] != width:
        shortcut = norm(convolution(x, width, 1, stride))
    y = layers.ReLU()(norm(convolution(x, width, 3, stride)))
    return layers.ReLU()(layers.Add()([norm(convolution(y, width, 3)), shortcut]))


def residual_network(stem: int, widths, blocks: int, size, classes: int) -> keras.Model:
    inputs = keras.Input(size)
    x = layers.ReLU()(norm(convolution(inputs, stem, 3)))
    for stage, width in enumerate(widths):
        for i in range(blocks):
            x = basic_block(x, width, 2 if stage > 0 and i == 0 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes)(x))


def build(name: str, size, classes: int) -> keras.Model:
    if name == "resnet18-cifar":
        return residual_network(64, (64, 128, 256, 512), 2, size, classes)
    if name == "mobilenetv2":
        return keras.applications.MobileNetV2(
            input_shape=size, alpha=1.0, weights=None, classes=classes, classifier_activation=None
        )
    return residual_network(16, (16, 32, 64), (int(name.removeprefix("resnet")) - 2) // 6, size, classes)


class Distiller(keras.Model):
    """As in the example of keras.io: the student with a loss that calls the teacher."""

    def __init__(self, student, teacher, temperature: float):
        super().__init__()
        self.student, self.teacher, self.temperature = student, teacher, temperature
        self.teacher.trainable = False
        self.cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.divergence = keras.losses.KLDivergence()

    def call(self, x, training=None):
        return self.student(x, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        target = self.teacher(x, training=False)
        softened = self.divergence(
            keras.ops.softmax(target / self.temperature), keras.ops.softmax(y_pred / self.temperature)
        )
        return self.cross_entropy(y, y_pred) + softened * self.temperature**2


keras.utils.set_random_seed(1)
if job["threads"] > 0:
    tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(job["threads"])
started = time.perf_counter()
size = tuple(job["inputSize"])
student = build(job["student"], size, job["classes"])
parameters = sum(int(np.prod(w.shape)) for w in student.trainable_weights)
optimizer = keras.optimizers.SGD(job["rate"], momentum=job["momentum"], weight_decay=job["decay"])
if job.get("teacher"):
    model = Distiller(student, build(job["teacher"], size, job["classes"]), job["temperature"])
    model.compile(optimizer=optimizer, jit_compile=job["jit"])
else:
    model = student
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, jit_compile=job["jit"])
images = tf.random.normal((job["batch"], *size), seed=1)
labels = tf.constant(np.arange(job["batch"]) % job["classes"], tf.int32)


def step() -> float:
    return float(model.train_on_batch(images, labels))


serve(
    send,
    {
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__, "python": sys.version.split()[0]},
        "parameters": parameters,
        "build": (time.perf_counter() - started) * 1000,
    },
    step,
)
