"""The commands of `ragway bench`.

bench     ask models questions raw and with passages        loopback  a gateway for one command
report    report and diff of runs                           judge     a model judges the answers of a run
draft     a model drafts questions                          live      the results of shadow comparisons
shared    options, gateway and models of all bench commands
"""
