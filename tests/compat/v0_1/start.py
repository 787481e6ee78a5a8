import optuna

# warmstart, strategy joint: best first
points = [
    {
        "batch_size": 32,
        "dropout_rate": 0.0600148164667,
        "log10_decay_rate": -5.7186144739389,
        "log10_learning_rate": -3.4858651133254,
        "num_layers_conv": 5,
        "num_layers_fc": 2,
    },
    {
        "batch_size": 22,
        "dropout_rate": 0.4196317864582,
        "log10_decay_rate": -6.0260784029961,
        "log10_learning_rate": -3.1523943180218,
        "num_layers_conv": 5,
        "num_layers_fc": 2,
    },
    {
        "batch_size": 19,
        "dropout_rate": 0.5440554913133,
        "log10_decay_rate": -5.0172147490084,
        "log10_learning_rate": -3.7080029631034,
        "num_layers_conv": 2,
        "num_layers_fc": 1,
    },
]

study = optuna.create_study(direction="minimize")
for point in points:
    study.enqueue_trial(point)
