"""Offer the engine to Python programs: what `import kafkatool` promises.

Everything here is built from the engine and adds no way of reading of its own. pyarrow is imported only
where an Arrow table or stream is asked for.
"""
