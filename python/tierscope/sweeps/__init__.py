"""Sweeps: one study of many points, run so that nothing is lost or done twice.

``study`` reads what is asked for, ``design`` gives the values of each point, ``points`` resolves
them to machines and workloads, ``execute`` runs them, ``sweep`` keeps them in a directory, and
``table`` makes one table of all.
"""
