"""What the world answers.

Each module here implements ports and knows no other adapter.
"""
