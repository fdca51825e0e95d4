"""Write logs as a broker does: append, roll, index, flush, and recover after a crash."""
