from penstock.core.loop cimport Loop
from penstock.core.types cimport HistogramC, LongestC, TurnC
