#!/usr/bin/env bash
# Somebody has a model of their own, or a program in C. What is built stays in the directory KEEP, where one is named.
source "$(dirname "$0")/journey.bash"

instead /tmp/ "${KEEP:-$directory}/"
instead '-DCMAKE_PREFIX_PATH' '-DCMAKE_UNITY_BUILD=ON -DCMAKE_PREFIX_PATH'
instead '--train-iters 300' '--train-iters 30'
page examples/own-model/README.md "A model of your own"
expect grep -q 'peak loss' output
page docs/c-interface.md "The C interface"
expect grep -q '"end":"finished"' output
