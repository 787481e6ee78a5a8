import sys

import keras
from keras import layers
from sklearn.datasets import load_digits

learning_rate = float(sys.argv[1])
epochs = 6

x, y = load_digits(return_X_y=True)
x = x.reshape(-1, 8, 8, 1).astype("float32") / 16

model = keras.Sequential(
    [
        keras.Input(shape=(8, 8, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(10, activation="softmax"),
    ]
)
model.summary()
model.compile(
    optimizer=keras.optimizers.SGD(learning_rate, momentum=0.9),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(x[:1300], y[:1300], batch_size=64, epochs=epochs, validation_data=(x[1300:], y[1300:]))
score = model.evaluate(x[1300:], y[1300:], verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])
