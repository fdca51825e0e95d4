"""How kafkatool is handed out: reproducible wheels and sources, and a bundle for hosts without Python."""
