"""Features that exist only for compatibility with torch: `verbose` prints kernel calls as oneDNN and MKL do."""
