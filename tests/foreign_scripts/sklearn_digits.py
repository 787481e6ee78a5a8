import sys

from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
clf = MLPClassifier(hidden_layer_sizes=(32,), learning_rate_init=float(sys.argv[1]), random_state=0)
for epoch in range(6):
    clf.partial_fit(X_train, y_train, classes=range(10))
    accuracy = accuracy_score(y_test, clf.predict(X_test))
    print("epoch %d: accuracy = %.2f%%" % (epoch, 100 * accuracy))
