"""The commands of `ragway bench`.

bench     asks models questions raw and with passages       loopback  a gateway for one command
report    report and diff of runs                           judge     a model judges a run's answers
draft     a model drafts questions                          live      results of shadow comparisons
shared    options, gateway and models for all bench commands
"""
